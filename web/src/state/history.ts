// What has happened, as far as the page remembers it: it asks the server only for what is new.

import type { Bar, Happening, HistoryPage, OngoingBar } from "../api/types";
import { Lanes } from "../timeline/lanes";

/** Bars that are kept. More than a screen can show, and few enough for a telephone. */
const MOST_BARS = 60_000;
const MOST_HAPPENINGS = 5_000;

export class History {
  bars: Bar[] = [];
  happenings: Happening[] = [];
  ongoing: OngoingBar[] = [];
  lanes = new Lanes<Bar>();
  /** The newest sequence number that is known. */
  last = 0;
  /** Ended bars that the page no longer has, or never had because the server had forgotten them. */
  forgotten = 0;
  /** Grows with every change, so that whoever draws knows when to. */
  version = 0;

  /** Takes an answer in. `false` where the server has begun anew, and everything has to be asked for again. */
  take(page: HistoryPage): boolean {
    if (page.last < this.last) {
      this.clear();
      return false;
    }
    if (this.last === 0) this.forgotten = Math.max(0, page.first - 1);
    const before = this.last;
    for (const bar of page.bars) {
      if (bar.seq <= before) continue;
      this.bars.push(bar);
      this.lanes.add(bar);
    }
    for (const happening of page.happenings) if (happening.seq > before) this.happenings.push(happening);
    const newest = Math.max(before, page.bars.at(-1)?.seq ?? 0, page.happenings.at(-1)?.seq ?? 0);
    this.last = page.more ? newest : Math.max(newest, page.last);
    this.ongoing = page.ongoing;
    this.trim();
    this.version++;
    return true;
  }

  clear(): void {
    this.bars = [];
    this.happenings = [];
    this.ongoing = [];
    this.lanes = new Lanes<Bar>();
    this.last = 0;
    this.forgotten = 0;
    this.version++;
  }

  private trim(): void {
    // A tenth at a time: to move everything for each new bar would take longer than to draw it.
    if (this.bars.length > MOST_BARS * 1.1) {
      const gone = this.bars.splice(0, this.bars.length - MOST_BARS);
      this.forgotten += gone.length;
      this.lanes.forget(gone.at(-1)?.seq ?? 0);
    }
    if (this.happenings.length > MOST_HAPPENINGS * 1.1) this.happenings.splice(0, this.happenings.length - MOST_HAPPENINGS);
  }
}
