// Which part of time is seen.

export interface Window {
  from: number;
  to: number;
  /** The present stays at the right edge. */
  follow: boolean;
}

/** Where time begins and ends, as far as anything is known. */
export interface Limits {
  first: number;
  last: number;
  /** The shortest span that can be seen. */
  least?: number;
}

/** Room to the right of the present, as a share of what is seen: what is expected shows there. */
const AHEAD = 0.06;
const LEAST = 0.001;

const longest = (limits: Limits): number => Math.max((limits.last - limits.first) * 1.1, 10);

/** Moves a window with the present, if it follows. */
export function followed(window: Window, now: number): Window {
  if (!window.follow) return window;
  const width = window.to - window.from;
  const to = now + width * AHEAD;
  return { from: to - width, to, follow: true };
}

/** Shows the last so many seconds, and goes with the present. */
export const lately = (seconds: number, now: number): Window => followed({ from: now - seconds, to: now, follow: true }, now);

export function all(limits: Limits): Window {
  const width = Math.max(limits.last - limits.first, 1);
  return { from: limits.first - width * 0.01, to: limits.last + width * 0.02, follow: false };
}

/** Zooms about a moment: a factor below 1 comes nearer. Whoever follows the present goes on doing so. */
export function zoomed(window: Window, factor: number, about: number, limits: Limits): Window {
  const old = window.to - window.from;
  const width = Math.min(Math.max(old * factor, limits.least ?? LEAST), longest(limits));
  if (window.follow) return followed({ ...window, from: window.to - width }, limits.last);
  const share = (about - window.from) / old;
  return kept({ from: about - width * share, to: about + width * (1 - share), follow: false }, limits);
}

/** Moves by a share of what is seen. */
export function panned(window: Window, share: number, limits: Limits): Window {
  const by = share * (window.to - window.from);
  return kept({ from: window.from + by, to: window.to + by, follow: false }, limits);
}

/** Some of what is known stays in sight. */
function kept(window: Window, limits: Limits): Window {
  const width = window.to - window.from;
  const margin = width * 0.1;
  const least = Math.min(limits.first - margin, limits.last + margin - width);
  const most = Math.max(limits.last + margin - width, limits.first - margin);
  const from = Math.min(Math.max(window.from, least), most);
  return { from, to: from + width, follow: false };
}

/** Comes to a bar, if it is not in sight. */
export function showing(window: Window, start: number, end: number): Window {
  if (start >= window.from && end <= window.to) return window;
  const width = Math.max(window.to - window.from, (end - start) * 1.5);
  const middle = (start + end) / 2;
  return { from: middle - width / 2, to: middle + width / 2, follow: false };
}

/** Moments for labels: 1, 2 or 5 of some unit of the clock apart. */
export function ticks(from: number, to: number, room: number, origin = 0): { step: number; at: number[] } {
  const rough = (to - from) / Math.max(2, room);
  const units = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const power = 10 ** Math.floor(Math.log10(rough));
  const small = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const step = rough <= 0.5 || rough > 86400 ? small : (units.find((unit) => unit >= rough) ?? small);
  const at: number[] = [];
  for (let number = Math.ceil((from + origin) / step - 1e-9); number * step - origin <= to; number++) at.push(0 + number * step - origin);
  return { step, at };
}
