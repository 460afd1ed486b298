// A small chart of what was in the last minutes, and a sentence that says the same. Pointer or arrow keys read values off it.

import { useState } from "preact/hooks";
import { span } from "./format";

export interface Series {
  name: string;
  values: (number | null)[];
  /** A class of the style sheet: it gives the colour and, besides it, the stroke. */
  look: "one" | "two" | "three";
  bars?: boolean;
  /** What stands beside the name while nobody reads values off the chart; without it, the latest value. */
  now?: string;
}

interface Given {
  title: string;
  series: Series[];
  bucket: number;
  format: (value: number) => string;
  /** What stands where there is nothing yet. */
  empty: string;
  /** Nothing more comes: the axis ends with the run, not with the present. */
  over?: boolean;
  /** Where the axis ends: the least round number that is not below a value. */
  round?: (value: number) => number;
}

const WIDTH = 330;
const HEIGHT = 140;
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 8, 8, 20];

/** The least round number that is not below a value. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= value * 0.999) ?? value;
}

/** The same of a number of things: even, so that the tick in the middle of the axis is a whole number too. */
export const roundUpEven = (value: number): number => Math.max(2, Math.ceil(roundUp(value) / 2) * 2);

const [MINUTE, HOUR, DAY] = [60, 3_600, 86_400];
/** Lengths of time that are round, and whose halves are. */
const ROUND_TIMES = [1, 2, 4, 10, 20, 30, MINUTE, 2 * MINUTE, 4 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 12 * HOUR, DAY];

/** The same of a number of seconds: `1 min 40 s` is round to nobody, and has no room beside the axis. */
export function roundUpTime(seconds: number): number {
  if (seconds < 0.999) return roundUp(seconds);
  return ROUND_TIMES.find((size) => size >= seconds * 0.999) ?? 4 * DAY * 2 ** Math.ceil(Math.log2(seconds / (4 * DAY)));
}

export function Chart({ title, series, bucket, format, empty, round = roundUp, over = false }: Given) {
  const [at, setAt] = useState<number | null>(null);
  const length = Math.max(2, ...series.map((one) => one.values.length));
  const known = series.flatMap((one) => one.values).filter((value): value is number => value !== null);
  const top = round(Math.max(0, ...known));
  const x = (index: number): number => LEFT + (index / (length - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const read = at === null ? length - 1 : Math.min(at, length - 1);
  const ago = (length - 1 - read) * bucket;
  const values = series.map((one) => {
    const index = at === null ? one.values.findLastIndex((value) => value !== null) : read;
    const value = one.values[index] ?? null;
    return { ...one, text: at === null && one.now !== undefined ? one.now : value === null ? "–" : format(value) };
  });
  const [present, before] = over ? ["the end", "before"] : ["now", "ago"];
  const sentence = values.map((one) => `${one.name} ${one.text}`).join(", ");
  const move = (by: number): void => setAt((old) => Math.min(Math.max((old ?? length - 1) + by, 0), length - 1));
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="values">
          {values.map((one) => <span key={one.name}><i class={`key ${one.look}${one.bars ? " filled" : ""}`} aria-hidden="true" />{one.name} <b>{one.text}</b></span>)}
        </span>
      </figcaption>
      {known.length === 0 ? <p class="quiet none">{empty}</p> : (
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" tabIndex={0} aria-label={`${title}, ${at === null ? "latest" : `${span(ago)} ${before}`}: ${sentence}`}
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
            setAt(Math.round(Math.min(Math.max(share, 0), 1) * (length - 1)));
          }}
          onPointerLeave={() => setAt(null)} onBlur={() => setAt(null)}
          onKeyDown={(event) => {
            if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
            event.preventDefault();
            move(event.key === "ArrowLeft" ? -1 : 1);
          }}>
          {[0, 0.5, 1].map((share) => (
            <g key={share}>
              <line class="grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(top * share)} y2={y(top * share)} />
              <text x={LEFT - 6} y={y(top * share) + 3.5} text-anchor="end">{format(top * share)}</text>
            </g>
          ))}
          <text x={LEFT} y={HEIGHT - 5}>{`${span((length - 1) * bucket)} ${before}`}</text>
          <text x={WIDTH - RIGHT} y={HEIGHT - 5} text-anchor="end">{present}</text>
          {series.map((one) => one.bars
            ? <path key={one.name} class={`columns ${one.look}`} d={columns(one.values, x, y, (WIDTH - LEFT - RIGHT) / length)} />
            : <path key={one.name} class={`curve ${one.look}`} d={curve(one.values, x, y)} />)}
          {at !== null && <line class="cross" x1={x(read)} x2={x(read)} y1={TOP} y2={HEIGHT - BOTTOM} />}
        </svg>
      )}
      <p class="quiet when">{at === null ? "\u00a0" : ago === 0 ? present : `${span(ago)} ${before}`}</p>
    </figure>
  );
}

/** A line through what is known; a point where its neighbours are not. */
function curve(values: (number | null)[], x: (index: number) => number, y: (value: number) => number): string {
  let path = "";
  values.forEach((value, index) => {
    if (value === null) return;
    const before = values[index - 1] ?? null;
    const place = `${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    path += before === null ? `M${place}h.01` : `L${place}`;
  });
  return path;
}

function columns(values: (number | null)[], x: (index: number) => number, y: (value: number) => number, room: number): string {
  const width = Math.max(room - 0.6, 0.8);
  const column = (value: number | null, index: number): string =>
    value ? `M${(x(index) - width / 2).toFixed(1)} ${y(0).toFixed(1)}V${y(value).toFixed(1)}h${width.toFixed(1)}V${y(0).toFixed(1)}z` : "";
  return values.map(column).join("");
}
