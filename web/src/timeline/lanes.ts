// Bars by GPU, in the order in which they ended, so that what is seen is found by bisection. Bars of one GPU that overlap (a
// batch) lie in different slots of its lane.

import type { Bar } from "../api/types";

/** What a lane has to know of a bar. */
export type Drawn = Pick<Bar, "kind" | "gpus" | "model" | "request" | "node" | "start" | "end"> & {
  ok?: boolean;
  why?: string | null;
  seq?: number;
};

/** Whether two are the same work: as long as it goes on, each answer of the server brings it as a new object. */
export const same = (a: Same, b: Same): boolean =>
  a.start === b.start && a.model === b.model && a.request === b.request && a.node === b.node && a.kind === b.kind;
type Same = Pick<Drawn, "start" | "model" | "request" | "node" | "kind">;

export interface Piece<B extends Drawn = Drawn> {
  bar: B;
  slot: number;
}

/** Bars that would share pixels, as one: from when to when, how much of it was work and loading, and mostly of which model. */
export interface Merged {
  start: number;
  end: number;
  busy: number;
  loading: number;
  model: string;
}

/** The bars of one GPU, as drawing needs them. */
export interface LaneView {
  /** The number of slots, where it does not depend on what is seen. */
  readonly slots?: number;
  within(from: number, to: number, visit: (piece: Piece) => void): void;
  /** Slots for bars that have not ended. */
  slotsFor(starts: number[]): number[];
  /** What to draw where there are more bars than pixels. */
  merged?(from: number, to: number, pixels: number): Merged[] | null;
}

export interface LanesView {
  of(gpu: number): LaneView;
}

export class Lane<B extends Drawn = Drawn> implements LaneView {
  pieces: Piece<B>[] = [];
  /** The end of the last bar of each slot. */
  private ends: number[] = [];
  /** The longest bar: none that ends later than this after a moment can have begun before it. */
  longest = 0;

  add(bar: B): void {
    const last = this.pieces.at(-1);
    this.longest = Math.max(this.longest, bar.end - bar.start);
    if (last && bar.end < last.bar.end) {
      // Seldom: an answer out of order. The slots are then given anew, since each depends on those before it.
      this.pieces.splice(this.after(bar.end), 0, { bar, slot: 0 });
      this.ends = [];
      for (const piece of this.pieces) piece.slot = this.take(piece.bar);
      return;
    }
    this.pieces.push({ bar, slot: this.take(bar) });
  }

  /** The slot that was free last before the bar began: with bars in the order of their ends, this needs the fewest. */
  private take(bar: B): number {
    const slot = this.free(bar.start, this.ends);
    this.ends[slot] = bar.end;
    return slot;
  }

  private free(start: number, ends: number[]): number {
    let best = -1;
    ends.forEach((end, slot) => {
      if (end <= start + 1e-9 && (best < 0 || end > (ends[best] ?? 0))) best = slot;
    });
    return best < 0 ? ends.length : best;
  }

  /** Slots for bars that have not ended: after all those that have. */
  slotsFor(starts: number[]): number[] {
    const ends = [...this.ends];
    return starts.map((start) => {
      const slot = this.free(start, ends);
      ends[slot] = Infinity;
      return slot;
    });
  }

  /** The first piece that ends after a moment. */
  after(time: number): number {
    let [low, high] = [0, this.pieces.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.pieces[middle] as Piece<B>).bar.end <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Calls `visit` with every piece of which something lies within a span of time, in the order of their ends. */
  within(from: number, to: number, visit: (piece: Piece<B>) => void): void {
    for (let at = this.after(from); at < this.pieces.length; at++) {
      const piece = this.pieces[at] as Piece<B>;
      if (piece.bar.end - this.longest > to) return;
      if (piece.bar.start <= to) visit(piece);
    }
  }

  /** Forgets bars up to a sequence number. */
  forget(seq: number): void {
    const kept = this.pieces.findIndex((piece) => (piece.bar.seq ?? 0) > seq);
    if (kept !== 0) this.pieces.splice(0, kept < 0 ? this.pieces.length : kept);
  }
}

export class Lanes<B extends Drawn = Drawn> {
  private readonly lanes = new Map<number, Lane<B>>();

  of(gpu: number): Lane<B> {
    let lane = this.lanes.get(gpu);
    if (!lane) this.lanes.set(gpu, (lane = new Lane<B>()));
    return lane;
  }

  add(bar: B): void {
    for (const gpu of bar.gpus) this.of(gpu).add(bar);
  }

  forget(seq: number): void {
    for (const lane of this.lanes.values()) lane.forget(seq);
  }

  static from<B extends Drawn>(bars: B[]): Lanes<B> {
    const lanes = new Lanes<B>();
    for (const bar of [...bars].sort((a, b) => a.end - b.end)) lanes.add(bar);
    return lanes;
  }
}
