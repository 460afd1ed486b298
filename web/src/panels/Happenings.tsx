// What happened: evictions, failures, retries, GPUs that were lost and came back, requests that came and went.

import { useMemo, useState } from "preact/hooks";
import type { Happening, HappeningKind } from "../api/types";
import { clock, count, elapsed, plainly } from "../parts/format";
import { Pager } from "../parts/Pager";
import { RequestLink } from "../parts/RequestLink";
import type { Live } from "../state/live";

const GROUPS: { name: string; kinds: HappeningKind[] }[] = [
  { name: "Failures and retries", kinds: ["failed", "retried", "given_up"] },
  { name: "GPUs lost and recovered", kinds: ["lost", "back"] },
  { name: "Evictions", kinds: ["evicted"] },
  { name: "Requests", kinds: ["accepted", "completed", "cancelled"] },
];
const PAGE = 15;
const WORD: Record<HappeningKind, string> = {
  evicted: "evicted", failed: "failed", retried: "retried", lost: "lost", back: "back", accepted: "accepted", completed: "completed", cancelled: "cancelled", given_up: "given up",
};

/** Those of the wanted kinds that say something, newest first. */
export function chosen(all: Happening[], off: ReadonlySet<string>, text: string): Happening[] {
  const kinds = new Set(GROUPS.filter((group) => !off.has(group.name)).flatMap((group) => group.kinds));
  const sought = text.trim().toLowerCase();
  const hit = (one: Happening): boolean =>
    !sought || [one.text, one.request, one.model, one.kind].some((part) => part?.toLowerCase().includes(sought));
  return all.filter((one) => kinds.has(one.kind) && hit(one)).reverse();
}

export function Happenings({ live, real, open }: { live: Live; real: boolean; open: (request: string) => void }) {
  const [off, setOff] = useState<ReadonlySet<string>>(new Set());
  const [text, setText] = useState("");
  const [from, setFrom] = useState(0);
  const { happenings, version } = live.history;
  const found = useMemo(() => chosen(happenings, off, text), [version, off, text]);
  const began = live.overview?.started_at ?? null;
  const at = Math.min(from, Math.max(0, Math.floor((found.length - 1) / PAGE) * PAGE));
  const toggle = (name: string): void => {
    const next = new Set(off);
    if (!next.delete(name)) next.add(name);
    setOff(next);
    setFrom(0);
  };
  return (
    <section id="happenings" aria-labelledby="happenings-title">
      <h2 id="happenings-title">Events <span class="quiet">{count(found.length)}</span></h2>
      <div class="tools" role="group" aria-label="Event filter">
        {GROUPS.map((group) => (
          <label key={group.name} class="check"><input type="checkbox" checked={!off.has(group.name)} onChange={() => toggle(group.name)} />{group.name}</label>
        ))}
        <label class="seek">Filter <input type="search" value={text} placeholder="by text" onInput={(event) => { setText(event.currentTarget.value); setFrom(0); }} /></label>
      </div>
      {found.length === 0 ? <p class="quiet">{happenings.length ? "No such events." : "Nothing has happened yet."}</p> : (
        <ol class="happenings">
          {found.slice(at, at + PAGE).map((one) => (
            <li key={one.seq} class={one.kind} data-kind={one.kind}>
              <time>{real && began !== null ? clock(began + one.t) : elapsed(one.t, 0.1)}</time>
              <span class="kind">{WORD[one.kind] ?? one.kind}</span>
              <span class="text"><Text one={one} open={open} /></span>
            </li>
          ))}
        </ol>
      )}
      <Pager from={at} page={PAGE} total={found.length} go={setFrom} of="happenings" />
    </section>
  );
}

/** The sentence, with the request that it names as a link; the link behind it where it names none. */
function Text({ one, open }: { one: Happening; open: (request: string) => void }) {
  if (!one.request) return <>{plainly(one.text)}</>;
  const link = <RequestLink id={one.request} open={open} />;
  const at = one.text.indexOf(one.request);
  if (at < 0) return <>{plainly(one.text)} {link}</>;
  return <>{plainly(one.text.slice(0, at))}{link}{plainly(one.text.slice(at + one.request.length))}</>;
}
