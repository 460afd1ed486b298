// What colours and patterns mean.

import type { Overview } from "../api/types";
import type { History } from "../state/history";
import { wasCutOff } from "../state/live";
import { Swatch } from "../parts/Swatch";

/** Names that a legend can hold before it is in the way. */
const MOST = 24;

export function Legend({ overview, history }: { overview: Overview | null; history: History }) {
  const known = overview?.models.map((model) => model.name) ?? [];
  const names = known.length ? known : [...new Set(history.bars.map((bar) => bar.model))];
  return (
    <ul class="legend" aria-label="Colours of models">
      {names.slice(0, MOST).map((name) => <li key={name}><Swatch model={name} /> {name}</li>)}
      {names.length > MOST && <li class="quiet">and {names.length - MOST} more</li>}
      <li class="quiet"><span class="patch hatched" aria-hidden="true" /> hatched: model load</li>
      <li class="quiet"><span class="patch crossed" aria-hidden="true" /> crossed out: failed</li>
      {overview?.state !== "finished" && <li class="quiet"><span class="patch faint" aria-hidden="true" /> faint: {wasCutOff(overview) ? "had not ended" : "expected"}</li>}
    </ul>
  );
}
