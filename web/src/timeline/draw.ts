// Draws bars on a canvas. Only what is seen is drawn, and bars that would share a pixel are drawn once.

import type { OngoingBar } from "../api/types";
import { type Drawn, type LanesView, type Merged, type Piece, same } from "./lanes";
import type { Layout, Row } from "./layout";
import { inkOn } from "../parts/colours";
import { plainly } from "../parts/format";
import { type Window, ticks } from "./window";

export interface Theme {
  ink: string;
  quiet: string;
  line: string;
  paper: string;
  stripe: string;
  bad: string;
}

export interface Scene {
  layout: Layout;
  width: number;
  window: Window;
  lanes: LanesView;
  ongoing: OngoingBar[];
  /** Where the line of the present is drawn, if it is. */
  now: number | null;
  /** When the run was interrupted, if it was: what went on then ended there, and is drawn faintly. */
  cutOff: number | null;
  theme: Theme;
  colour: (model: string) => string;
  label: (time: number, step: number) => string;
  marked: Drawn | OngoingBar | null;
  /** What is added to a time before it is rounded for a label: where clocks are shown, labels are whole seconds of the clock. */
  origin: number;
  /** A request whose bars stand out, and the others back. */
  chosen: string | null;
  lost: Set<number>;
  /** Drawn last, over the bars. */
  over?: (c: CanvasRenderingContext2D, scene: Scene) => void;
}

export const xOf = (scene: Scene, time: number): number =>
  scene.layout.gutter + ((time - scene.window.from) / (scene.window.to - scene.window.from)) * (scene.width - scene.layout.gutter);

export const timeAt = (scene: Scene, x: number): number =>
  scene.window.from + ((x - scene.layout.gutter) / (scene.width - scene.layout.gutter)) * (scene.window.to - scene.window.from);

/** Up to where things are drawn that have not ended. */
export const presentOf = (scene: Scene): number | null => scene.now ?? scene.cutOff;

const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";

/** Draws everything; answers how many bars were in sight, each GPU's counted. */
export function draw(c: CanvasRenderingContext2D, scene: Scene): number {
  const { layout, width } = scene;
  c.clearRect(0, 0, width, layout.height);
  c.font = FONT;
  c.textBaseline = "middle";
  lanesBehind(c, scene);
  axis(c, scene);
  names(c, scene);
  c.save();
  c.beginPath();
  c.rect(layout.gutter, layout.head - 4, width - layout.gutter, layout.height);
  c.clip();
  let drawn = 0;
  for (const row of layout.rows) drawn += lane(c, scene, row);
  present(c, scene);
  scene.over?.(c, scene);
  c.restore();
  return drawn;
}

function lanesBehind(c: CanvasRenderingContext2D, scene: Scene): void {
  const { layout, width, theme } = scene;
  c.fillStyle = theme.stripe;
  for (const row of layout.rows) c.fillRect(layout.gutter, row.y, width - layout.gutter, row.height - 1);
}

function axis(c: CanvasRenderingContext2D, scene: Scene): void {
  const { layout, width, theme, window } = scene;
  const { step, at } = ticks(window.from, window.to, (width - layout.gutter) / 96, scene.origin);
  c.textAlign = "center";
  for (const time of at) {
    const x = Math.round(xOf(scene, time)) + 0.5;
    c.fillStyle = theme.line;
    c.fillRect(x - 0.5, layout.head - 5, 1, layout.height - layout.head);
    c.fillStyle = theme.quiet;
    const text = scene.label(time, step);
    const half = c.measureText(text).width / 2;
    if (x - half >= layout.gutter - 4 && x + half <= width) c.fillText(text, x, 11);
  }
}

function names(c: CanvasRenderingContext2D, scene: Scene): void {
  const { layout, theme } = scene;
  const every = Math.ceil(12 / (layout.rows[0]?.height ?? 12));
  c.textAlign = "right";
  layout.rows.forEach((row, at) => {
    const first = layout.rows[at - 1]?.server !== row.server;
    if (first && layout.servers > 1) {
      // A bracket joins the GPUs of one server.
      const last = layout.rows.findLast((other) => other.server === row.server) ?? row;
      c.fillStyle = theme.quiet;
      c.fillRect(2, row.y + 1, 2, last.y + last.height - row.y - 3);
    }
    if (at % every) return;
    const lost = scene.lost.has(row.gpu);
    c.fillStyle = lost ? theme.bad : theme.quiet;
    c.fillText(`${lost ? "✕ " : ""}GPU ${row.gpu}`, layout.gutter - 7, row.y + Math.max(row.height, 11) / 2);
  });
}

function lane(c: CanvasRenderingContext2D, scene: Scene, row: Row): number {
  const { window } = scene;
  const lane = scene.lanes.of(row.gpu);
  const merged = lane.merged?.(window.from, window.to, scene.width - scene.layout.gutter);
  if (merged) {
    for (const one of merged) mergedBar(c, scene, row, one);
    return merged.length;
  }
  const pieces: Piece[] = [];
  lane.within(window.from, window.to, (piece) => void pieces.push(piece));
  const going = scene.ongoing.filter((work) => work.gpus.includes(row.gpu));
  const places = lane.slotsFor(going.map((work) => work.start));
  const slots = lane.slots ?? 1 + pieces.reduce((most, piece) => Math.max(most, piece.slot), places.reduce((most, slot) => Math.max(most, slot), 0));
  const strip = (row.height - 1) / slots;
  const filled = new Array<number>(slots).fill(-Infinity);
  for (const { bar, slot } of pieces) {
    const [x, end] = [xOf(scene, bar.start), xOf(scene, bar.end)];
    // Nothing of it would be seen: the pixel has been drawn. What failed is drawn all the same.
    if (end - x < 1 && Math.floor(end) <= (filled[slot] as number) && bar.ok !== false) continue;
    filled[slot] = Math.floor(end);
    oneBar(c, scene, bar, x, end, row.y + slot * strip, strip);
  }
  going.forEach((work, at) => ongoingBar(c, scene, work, row.y + (places[at] ?? 0) * strip, strip));
  return pieces.length + going.length;
}

function mergedBar(c: CanvasRenderingContext2D, scene: Scene, row: Row, one: Merged): void {
  const x = Math.floor(xOf(scene, one.start));
  const width = Math.max(Math.ceil(xOf(scene, one.end)) - x, 1);
  const [whole, height] = [Math.max(one.end - one.start, 1e-12), row.height - 1];
  const share = Math.min(1, one.busy / whole);
  c.globalAlpha = share > 0.95 ? 1 : 0.3 + 0.7 * share;
  c.fillStyle = scene.colour(one.model);
  c.fillRect(x, row.y, width, height);
  c.globalAlpha = 1;
  if (one.loading <= 0) return;
  // The part of the height that was loading, so that loads are seen from afar.
  const part = Math.max(1.5, height * Math.min(1, one.loading / whole));
  c.fillStyle = scene.theme.ink;
  c.fillRect(x, row.y + height - part, width, part);
}

function oneBar(c: CanvasRenderingContext2D, scene: Scene, bar: Drawn, x: number, end: number, y: number, height: number): void {
  const aside = scene.chosen !== null && bar.request !== scene.chosen;
  c.globalAlpha = aside ? 0.2 : 1;
  // Whole pixels, and one between two bars: edges that lie on pixels are sharp, and filled several times as fast.
  const left = Math.round(x);
  const room = Math.max(Math.round(end) - left, 1);
  const width = room > 3 ? room - 1 : room;
  c.fillStyle = scene.colour(bar.model);
  c.fillRect(left, y, width, height);
  if (bar.kind === "load") hatched(c, scene, left, y, width, height);
  else if (width > 34 && height > 14 && bar.request) caption(c, scene, bar, left, y, width, height);
  if (bar.ok === false) crossed(c, scene, left, y, Math.max(width, 3), height);
  if (scene.marked && (scene.marked === bar || same(scene.marked, bar))) outlined(c, scene, left, y, width, height);
  c.globalAlpha = 1;
}

function ongoingBar(c: CanvasRenderingContext2D, scene: Scene, work: OngoingBar, y: number, height: number): void {
  const now = presentOf(scene) ?? work.start;
  const [x, end] = [xOf(scene, work.start), xOf(scene, Math.max(now, work.start))];
  const aside = scene.chosen !== null && work.request !== scene.chosen;
  c.fillStyle = scene.colour(work.model);
  if (scene.cutOff === null && work.expected_end !== null && work.expected_end > now) {
    c.globalAlpha = aside ? 0.1 : 0.3;
    c.fillRect(end, y, xOf(scene, work.expected_end) - end, height);
  }
  c.globalAlpha = aside ? 0.2 : scene.cutOff === null ? 1 : 0.45;
  const width = Math.max(end - x, 1);
  c.fillRect(x, y, width, height);
  if (work.kind === "load") hatched(c, scene, x, y, width, height);
  else if (width > 34 && height > 14 && work.request) caption(c, scene, work, x, y, width, height);
  if (scene.marked && same(scene.marked, work)) outlined(c, scene, x, y, width, height);
  c.globalAlpha = 1;
}

let tile: { paper: string; pattern: CanvasPattern | null } | null = null;

/** Stripes in the colour of the paper: a load is seen without its colour. A pattern is drawn far faster than lines. */
function stripes(c: CanvasRenderingContext2D, paper: string): CanvasPattern | null {
  if (tile?.paper === paper) return tile.pattern;
  const small = document.createElement("canvas");
  small.width = small.height = 6;
  const s = small.getContext("2d");
  if (s) {
    s.strokeStyle = paper;
    s.lineWidth = 2;
    s.beginPath();
    for (const at of [-6, 0, 6]) {
      s.moveTo(at - 1, 7);
      s.lineTo(at + 7, -1);
    }
    s.stroke();
  }
  tile = { paper, pattern: c.createPattern(small, "repeat") };
  return tile.pattern;
}

function hatched(c: CanvasRenderingContext2D, scene: Scene, x: number, y: number, width: number, height: number): void {
  const pattern = width < 2 ? null : stripes(c, scene.theme.paper);
  if (!pattern) return;
  c.fillStyle = pattern;
  c.fillRect(x, y, width, height);
}

function crossed(c: CanvasRenderingContext2D, scene: Scene, x: number, y: number, width: number, height: number): void {
  c.strokeStyle = scene.theme.ink;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x + width, y + height);
  c.moveTo(x, y + height);
  c.lineTo(x + width, y);
  c.stroke();
}

export function outlined(c: CanvasRenderingContext2D, scene: Scene, x: number, y: number, width: number, height: number): void {
  c.globalAlpha = 1;
  c.lineWidth = 2;
  c.strokeStyle = scene.theme.paper;
  c.strokeRect(x - 1, y - 1, width + 2, height + 2);
  c.strokeStyle = scene.theme.ink;
  c.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
}

function caption(c: CanvasRenderingContext2D, scene: Scene, bar: Drawn | OngoingBar, x: number, y: number, width: number, height: number): void {
  const from = Math.max(x, scene.layout.gutter);
  const room = width - (from - x) - 8;
  // Whole names or none: what makes one differ from the next is mostly at its end.
  const request = plainly(bar.request ?? "");
  const texts = [`${request}${bar.node ? ` · ${bar.node}` : ""}`, request, bar.node ?? ""];
  const text = texts.find((one) => one && c.measureText(one).width <= room);
  if (!text) return;
  c.textAlign = "left";
  c.fillStyle = inkOn(String(c.fillStyle));
  c.fillText(text, from + 4, y + height / 2 + 0.5);
}

function present(c: CanvasRenderingContext2D, scene: Scene): void {
  if (scene.now === null) return;
  const x = Math.round(xOf(scene, scene.now)) + 0.5;
  c.strokeStyle = scene.theme.ink;
  c.lineWidth = 1;
  c.setLineDash([4, 3]);
  c.beginPath();
  c.moveTo(x, scene.layout.head - 4);
  c.lineTo(x, scene.layout.height);
  c.stroke();
  c.setLineDash([]);
}
