// The difference between two outcomes, in words.

import type { WhatIfOutcome, WhatIf } from "../api/types";
import { count, percent, plural, span } from "../parts/format";

export interface Row {
  name: string;
  now: string;
  then: string;
  words: string;
  /** `null` where neither is better. */
  better: boolean | null;
}

/** Differences below this share are not worth a word: simulations are not that exact. */
const NOTHING = 0.005;

function times(name: string, now: number, then: number, less: string, more: string): Row {
  const row = { name, now: span(now), then: span(then) };
  const change = now > 0 ? (then - now) / now : 0;
  if (Math.abs(change) < NOTHING) return { ...row, words: "the same", better: null };
  return { ...row, words: `${span(Math.abs(then - now))} ${change < 0 ? less : more} (${percent(Math.abs(change))})`, better: change < 0 };
}

export function compared(now: WhatIfOutcome, then: WhatIfOutcome): Row[] {
  const loads = then.loads - now.loads;
  const points = Math.round(then.utilisation * 100) - Math.round(now.utilisation * 100);
  return [
    times("All done after", now.ends_in, then.ends_in, "sooner", "later"),
    times("Mean latency", now.mean, then.mean, "less", "more"),
    times("P50", now.p50, then.p50, "less", "more"),
    times("P99", now.p99, then.p99, "less", "more"),
    { name: "Loads", now: count(now.loads), then: count(then.loads), words: loads === 0 ? "the same" : `${count(Math.abs(loads))} ${loads < 0 ? "fewer" : "more"}`, better: loads === 0 ? null : loads < 0 },
    { name: "GPUs busy", now: percent(now.utilisation), then: percent(then.utilisation), words: points === 0 ? "the same" : `${Math.abs(points)} points ${points < 0 ? "less" : "more"}`, better: null },
  ];
}

/** One sentence for those who want only that. */
export function verdict({ as_it_is: now, what_if: then }: WhatIf): string {
  if (now.requests === 0 && then.requests === 0) return "No request is open and none arrived in the last minutes, so there is nothing to compare. Submit a request and try again.";
  const [end, , , late] = compared(now, then);
  const changed = then.policy === now.policy ? plural(then.gpus, "GPU") : `${plural(then.gpus, "GPU")} and ${then.policy}`;
  // Where more comes, when all of it is done says nothing: latency does.
  const of = now.coming > 0 ? `${plural(now.requests - now.coming, "open request")} and ${count(now.coming)} to come` : plural(now.requests, "open request");
  const than = late?.better === null ? ", the same as now" : `, ${late?.words} than as it is`;
  return `With ${changed}, the P99 of the ${of} would be ${span(then.p99)}${than}; all requests would be done ${end?.better === null ? "at the same time" : end?.words}.`;
}
