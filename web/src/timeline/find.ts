// Finds bars: under the pointer, and from one to the next by keys.

import type { OngoingBar } from "../api/types";
import { type Scene, presentOf, timeAt, xOf } from "./draw";
import { type Drawn, same } from "./lanes";
import { type Row, rowAt } from "./layout";

type Found = Drawn | OngoingBar;

const endOf = (scene: Scene, bar: Found): number => ("end" in bar ? bar.end : Math.max(presentOf(scene) ?? bar.start, bar.start));

/** The bars of a lane that lie in a span of time, each with its slot. */
function pieces(scene: Scene, gpu: number, from: number, to: number): { bar: Found; slot: number }[] {
  const lane = scene.lanes.of(gpu);
  const found: { bar: Found; slot: number }[] = [];
  lane.within(from, to, (piece) => void found.push(piece));
  const going = scene.ongoing.filter((work) => work.gpus.includes(gpu));
  const slots = lane.slotsFor(going.map((work) => work.start));
  going.forEach((bar, at) => {
    if (bar.start <= to && endOf(scene, bar) >= from) found.push({ bar, slot: slots[at] ?? 0 });
  });
  return found;
}

export function barAt(scene: Scene, x: number, y: number): Found | null {
  const row = rowAt(scene.layout, y);
  if (!row || x < scene.layout.gutter) return null;
  const { slots } = scene.lanes.of(row.gpu);
  // Where the number of slots does not depend on what is seen, only bars near the pointer are looked at.
  const [from, to] = slots ? [timeAt(scene, x - 3), timeAt(scene, x + 3)] : [scene.window.from, scene.window.to];
  const seen = pieces(scene, row.gpu, from, to);
  const strip = (row.height - 1) / (slots ?? 1 + seen.reduce((most, piece) => Math.max(most, piece.slot), 0));
  const slot = Math.floor((y - row.y) / strip);
  // A bar of a pixel or less can still be hit: the nearest within three pixels is taken.
  let [best, least] = [null as Found | null, 3];
  for (const { bar, slot: at } of seen) {
    if (at !== slot) continue;
    const away = Math.max(xOf(scene, bar.start) - x, x - xOf(scene, endOf(scene, bar)), 0);
    if (away < least || (away === 0 && best === null)) [best, least] = [bar, away];
    if (away === 0) break;
  }
  return best;
}

const middle = (scene: Scene, bar: Found): number => (bar.start + endOf(scene, bar)) / 2;

/** Bars of a lane in the order in which they began. */
function inOrder(scene: Scene, gpu: number): Found[] {
  const found = pieces(scene, gpu, -Infinity, Infinity).map((piece) => piece.bar);
  return found.sort((a, b) => a.start - b.start);
}

function nearest(scene: Scene, row: Row, time: number): { bar: Found; row: Row } | null {
  const bars = inOrder(scene, row.gpu);
  const distance = (bar: Found): number => Math.max(bar.start - time, time - endOf(scene, bar), 0);
  const best = bars.reduce<Found | null>((best, bar) => (best && distance(best) <= distance(bar) ? best : bar), null);
  return best && { bar: best, row };
}

export type Direction = "next" | "previous" | "up" | "down";

/** The bar that keys go to from another, or from none. */
export function step(scene: Scene, from: Found | null, direction: Direction): { bar: Found; row: Row } | null {
  const { rows } = scene.layout;
  const present = timeAt(scene, scene.layout.gutter + (scene.width - scene.layout.gutter) * 0.9);
  if (!from) {
    for (const row of rows) {
      const found = nearest(scene, row, scene.now ?? present);
      if (found) return found;
    }
    return null;
  }
  const at = rows.findIndex((row) => row.gpu === from.gpus[0]);
  const row = rows[at];
  if (!row) return null;
  if (direction === "next" || direction === "previous") {
    const bars = inOrder(scene, row.gpu);
    const here = bars.findIndex((bar) => bar === from || same(bar, from));
    const bar = bars[here + (direction === "next" ? 1 : -1)];
    return bar ? { bar, row } : null;
  }
  const by = direction === "down" ? 1 : -1;
  for (let other = at + by; other >= 0 && other < rows.length; other += by) {
    const found = nearest(scene, rows[other] as Row, middle(scene, from));
    if (found) return found;
  }
  return null;
}
