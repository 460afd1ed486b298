// Whose page it is, and how things stand: what somebody who has just been woken wants to know first.

import type { RunState } from "../api/types";
import { clock, day, span } from "../parts/format";
import { type Live, hasEnded } from "../state/live";

const LOOK: Record<RunState, string> = {
  running: "good", stopping: "warn", finished: "done", interrupted: "bad", "waiting for servers": "warn",
};

const SECTIONS: [string, string][] = [["timeline", "Timeline"], ["gpus", "GPUs"], ["trends", "Trends"], ["slowest", "Latency"], ["queue", "Queue"],
  ["happenings", "Events"], ["requests", "Requests"], ["what-if", "What if"]];

export function Header({ live }: { live: Live }) {
  const { overview, link } = live;
  const can = (id: string): boolean => (id === "what-if" && overview?.can.what_if === false ? false : !["queue", "what-if"].includes(id) || overview?.state !== "finished");
  const began = overview?.started_at;
  return (
    <header>
      <div class="line">
        <h1><span class="brand">gswarm</span> <span class="title">{overview?.title.replace(/^gswarm /, "") ?? ""}</span></h1>
        {overview && (
          <p class="facts">
            <span id="state" class={`pill ${link.state === "down" ? "bad" : LOOK[overview.state]}`}>
              {link.state === "down" ? "no connection" : overview.state}
            </span>
            <span>policy <b>{overview.policy}</b></span>
            <span title={began ? `${day(began)}, ${clock(began)}` : ""}>{hasEnded(overview) ? "took" : "for"} <b>{span(overview.now)}</b></span>
            {overview.speed !== 1 && <span title="Models are emulated. All times on this page are in the run's simulated time.">at <b>{overview.speed}×</b> real time</span>}
          </p>
        )}
      </div>
      <nav aria-label="Sections">
        {SECTIONS.filter(([id]) => can(id)).map(([id, name]) => <a key={id} href={`#${id}`}>{name}</a>)}
      </nav>
    </header>
  );
}
