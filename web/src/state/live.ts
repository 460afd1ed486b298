// Keeps the page up to date: asks the server each second while somebody looks, more rarely otherwise, ever more rarely while
// it does not answer, and goes on by itself when it does again.

import { Fault, Unreachable, get, wordsOf } from "../api/client";
import type { HistoryPage, Overview } from "../api/types";
import { History } from "./history";

export type Link =
  | { state: "starting" }
  | { state: "up" }
  | { state: "down"; why: string; since: number; retryAt: number }
  | { state: "locked"; refused: boolean };

const EACH = 1_000;
const HIDDEN = 15_000;
/** Nothing more happens to a run that has ended; yet somebody may resume it. */
const ENDED = 10_000;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;
const AT_ONCE = 5_000;

/** How long to wait after a number of failures in a row, in milliseconds. */
export const pauseAfter = (failures: number): number => Math.min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE);

export const hasEnded = (overview: Overview | null): boolean =>
  overview?.state === "finished" || overview?.state === "interrupted";

/** Nothing of an interrupted run goes on: what it had under way is told as what was. */
export const wasCutOff = (overview: Overview | null): boolean => overview?.state === "interrupted";

/** Whether two beginnings are of two processes. That of a run is worked out anew each time, and is never quite the same. */
const another = (before: number | null, now: number | null): boolean => before !== null && now !== null && Math.abs(now - before) > 5;

export class Live {
  overview: Overview | null = null;
  readonly history = new History();
  link: Link = { state: "starting" };
  /** Grows with every answer; panels that ask for more themselves do so when it does. */
  ticks = 0;
  /** Seconds of the run in a second of the clock on the wall: emulated servers may be faster than time. */
  private rate = 1;
  private askedAt = 0;
  private failures = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private busy = false;
  private readonly listeners = new Set<() => void>();

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.again();
    });
    void this.tick();
  }

  /** Asks now rather than when it is time. */
  again(): void {
    if (this.busy) return;
    clearTimeout(this.timer);
    void this.tick();
  }

  /** The present moment of the run, between two answers too. */
  now(): number {
    if (!this.overview) return 0;
    if (hasEnded(this.overview) || this.link.state !== "up") return this.overview.now;
    const gone = Math.min((performance.now() - this.askedAt) / 1000, 3);
    return this.overview.now + gone * this.rate;
  }

  private async tick(): Promise<void> {
    this.busy = true;
    let pause: number;
    try {
      await this.ask();
      this.failures = 0;
      this.link = { state: "up" };
      this.ticks++;
      pause = document.hidden ? HIDDEN : hasEnded(this.overview) ? ENDED : EACH;
    } catch (error) {
      pause = this.failed(error);
    }
    this.busy = false;
    for (const listener of this.listeners) listener();
    clearTimeout(this.timer);
    if (this.link.state !== "locked") this.timer = setTimeout(() => void this.tick(), pause);
  }

  private async ask(): Promise<void> {
    const overview = await get<Overview>("/v1/overview");
    const at = performance.now();
    const old = this.overview;
    if (old && another(old.started_at, overview.started_at)) this.history.clear();
    else if (old && overview.now > old.now) {
      const rate = (overview.now - old.now) / Math.max((at - this.askedAt) / 1000, 0.05);
      this.rate = this.rate * 0.7 + rate * 0.3;
    }
    this.askedAt = at;
    // A long history comes in pieces; what is there is shown before all of it has come.
    for (let page: HistoryPage | undefined; !page || page.more; ) {
      page = await get<HistoryPage>(`/v1/history?after=${this.history.last}&limit=${AT_ONCE}`);
      const before = this.history.last;
      if (!this.history.take(page)) page = undefined;
      else if (page.more && this.history.last === before) break;
    }
    this.overview = overview;
  }

  private failed(error: unknown): number {
    if (error instanceof Fault && (error.status === 401 || error.status === 403)) {
      this.link = { state: "locked", refused: this.link.state === "locked" };
      return HIDDEN;
    }
    if (!(error instanceof Fault || error instanceof Unreachable)) console.error(error);
    this.failures++;
    const pause = pauseAfter(this.failures);
    const since = this.link.state === "down" ? this.link.since : Date.now();
    this.link = { state: "down", why: wordsOf(error), since, retryAt: Date.now() + pause };
    return pause;
  }
}
