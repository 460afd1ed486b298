// A small chart of what would be: the same drawing as the timeline's, without the means to move in it.

import { useEffect, useRef } from "preact/hooks";
import type { WhatIfOutcome } from "../api/types";
import { colours } from "../parts/colours";
import { elapsed } from "../parts/format";
import { Chart } from "./chart";
import { Lanes } from "./lanes";
import { layoutOf } from "./layout";

export function SmallGantt({ outcome, until, label }: { outcome: WhatIfOutcome; until: number; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!canvas.current) return;
    const gpus = Array.from({ length: outcome.gpus }, (_, gpu) => ({ gpu, server: 0 }));
    const layout = layoutOf(gpus, 240, 14, 48, 22);
    const content = {
      layout, lanes: Lanes.from(outcome.bars), ongoing: [], now: null, cutOff: null, chosen: null, origin: 0, lost: new Set<number>(),
      colour: (model: string) => colours.of(model), label: (time: number, step: number) => elapsed(time, step),
    };
    const chart = new Chart(canvas.current, () => content, () => ({ first: 0, last: until }), { mark: () => undefined, open: () => undefined, moved: () => undefined }, { still: true });
    chart.window = { from: 0, to: until * 1.02, follow: false };
    chart.draw();
    return () => chart.end();
  }, [outcome, until]);
  return <canvas ref={canvas} class="still" role="img" aria-label={label} />;
}
