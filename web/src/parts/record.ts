// When a request came and how long it took, by one clock: that of the service or run, which emulated servers may make faster
// than the wall's. Latencies and all other times on the page are by it too.

import type { RequestRecord } from "../api/types";
import { clock, day, elapsed, span } from "./format";

export const isOpen = (record: RequestRecord): boolean => record.status === "open" || record.status === "accepted";

/** How the clock of a service goes: its seconds in one of the wall's, and when it began, in seconds since 1970. */
export interface Pace {
  speed: number;
  started_at: number | null;
}

export function took(record: RequestRecord, { speed }: Pace): string {
  if (record.arrived !== undefined) return record.arrived === null || record.ended == null ? "–" : span(record.ended - record.arrived);
  return record.accepted_at === null || record.ended_at === null ? "–" : span((record.ended_at - record.accepted_at) * speed);
}

export function came(record: RequestRecord, { speed, started_at: began }: Pace, withDay = false): string {
  if (record.arrived !== undefined) return record.arrived === null ? "–" : elapsed(record.arrived, 0.1);
  if (record.accepted_at === null) return "–";
  if (speed !== 1 && began !== null) return elapsed(Math.max(0, (record.accepted_at - began) * speed), 0.1);
  return withDay ? `${day(record.accepted_at)}, ${clock(record.accepted_at)}` : clock(record.accepted_at);
}
