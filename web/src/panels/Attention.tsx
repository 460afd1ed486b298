// What is wrong, if anything is: at the top, in words.

import { useEffect, useState } from "preact/hooks";
import type { Overview } from "../api/types";
import { gpuNames, plural, span } from "../parts/format";
import type { History } from "../state/history";
import type { Live } from "../state/live";

export interface Trouble {
  text: string;
  grave: boolean;
}

/** Failures that are older than this are for the list of what happened, not for the top of the page. */
const LATELY = 300;

/** What somebody should look at, the gravest first. */
export function troubles(overview: Overview, history: History): Trouble[] {
  const found: Trouble[] = [];
  const grave = (text: string): void => void found.push({ text, grave: true });
  const light = (text: string): void => void found.push({ text, grave: false });
  const why = overview.why ? `: ${overview.why}` : "";
  if (overview.state === "interrupted") grave(`The run was interrupted${why || ": `gswarm resume` continues it"}.`);
  if (overview.state === "waiting for servers") grave(`No server answers${why}. Requests are kept until one does.`);
  if (overview.state === "stopping") light(`The service is stopping${why}. It accepts no more requests.`);
  if (overview.state === "finished") light(`The run has finished${why}. This page no longer changes.`);
  for (const backend of overview.backends.filter((backend) => !backend.up)) {
    const since = backend.down_seconds === null ? "" : ` for ${span(backend.down_seconds)}`;
    const reason = backend.why ? `: ${backend.why}` : "";
    grave(`Server ${backend.name} (${gpuNames(backend.gpus)}) has been ${backend.state}${since}${reason}.`);
  }
  for (const backend of overview.backends.filter((backend) => backend.state === "suspect")) {
    light(`Server ${backend.name} (${gpuNames(backend.gpus)}) is suspect${backend.why ? `: ${backend.why}` : ""}.`);
  }
  const explained = new Set(overview.backends.filter((backend) => !backend.up).flatMap((backend) => backend.gpus));
  const lost = overview.gpus.filter((gpu) => gpu.state === "lost" && !explained.has(gpu.gpu)).map((gpu) => gpu.gpu);
  if (lost.length) grave(`${gpuNames(lost)} ${lost.length === 1 ? "is" : "are"} lost.`);
  const since = overview.now - LATELY;
  let [failed, retried] = [0, 0];
  for (let at = history.happenings.length - 1; at >= 0; at--) {
    const one = history.happenings[at];
    if (!one || one.t < since) break;
    if (one.kind === "given_up") failed++;
    if (one.kind === "failed") retried++;
  }
  const ended = overview.state === "finished" || overview.state === "interrupted";
  if (overview.counts.violations) grave(`This is a bug in gswarm: its records break ${plural(overview.counts.violations, "rule")} of the check. See its log.`);
  if (ended && overview.counts.failed) grave(`${plural(overview.counts.failed, "request")} failed.`);
  else if (failed) grave(`${plural(failed, "request")} given up in the last ${span(LATELY)}.`);
  else if (retried && !ended) light(`${plural(retried, "attempt")} failed in the last ${span(LATELY)}, and nothing was given up.`);
  return found;
}

export function Attention({ live }: { live: Live }) {
  const { overview, history, link } = live;
  const list = overview && link.state !== "locked" ? troubles(overview, history) : [];
  return (
    <div class="attention">
      {link.state === "down" && <Gone why={link.why} since={link.since} retryAt={link.retryAt} again={() => live.again()} known={overview !== null} />}
      {list.length > 0 && (
        <ul aria-label="Needs attention">
          {list.map((one) => <li key={one.text} class={one.grave ? "grave" : "light"}><span aria-hidden="true">{one.grave ? "▲" : "●"}</span> {one.text}</li>)}
        </ul>
      )}
    </div>
  );
}

function Gone({ why, since, retryAt, again, known }: { why: string; since: number; retryAt: number; again: () => void; known: boolean }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  const left = Math.max(0, Math.ceil((retryAt - now) / 1000));
  return (
    <div class="gone" id="gone">
      <span aria-hidden="true">▲</span> No connection for {span(Math.round((now - since) / 1000))}: {why}.
      {known ? " The page shows the state at that time." : ""} {left > 0 ? `Next attempt in ${left} s.` : "Asking …"}
      <button type="button" onClick={again}>Try now</button>
    </div>
  );
}
