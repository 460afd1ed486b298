// What a bar is, in words: for the text beside the pointer, for tables and for those who do not see the picture.

import type { OngoingBar } from "../api/types";
import { clock, elapsed, gpuNames, plainly, span } from "../parts/format";
import type { Drawn } from "./lanes";

export const what = (bar: Drawn | OngoingBar): string => {
  if (bar.kind === "load") return `load of ${bar.model}`;
  return bar.request ? `${plainly(bar.request)}${bar.node ? ` / ${bar.node}` : ""}` : `call of ${bar.model}`;
};

/** Lines: what, on which model and GPUs, when, how long, and what became of it. */
export function lines(bar: Drawn | OngoingBar, now: number, startedAt: number | null, cutOff = false): string[] {
  const end = "end" in bar ? bar.end : null;
  const at = startedAt === null ? "" : ` (${clock(startedAt + bar.start)})`;
  const length = span((end ?? now) - bar.start);
  const left = "expected_end" in bar && bar.expected_end !== null && bar.expected_end > now ? `, about ${span(bar.expected_end - now)} more` : "";
  const ending = "ok" in bar && bar.ok === false ? `failed: ${bar.why ?? "no reason was given"}` : ("why" in bar && bar.why) || "";
  return [
    what(bar),
    bar.kind === "load" ? gpuNames(bar.gpus) : `${bar.model} on ${gpuNames(bar.gpus)}`,
    end === null && cutOff ? `at ${elapsed(bar.start, 0.01)}, was ${bar.kind === "load" ? "loading" : "running"} for ${length} when the run was interrupted` : end === null ? `since ${elapsed(bar.start)}${at}: ${length} so far${left}` : `at ${elapsed(bar.start, 0.01)}${at}, took ${length}`,
    ...(ending ? [ending] : []),
  ];
}
