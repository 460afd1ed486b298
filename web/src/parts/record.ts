// When a request came and how long it took. Of a run, its own seconds are told, which emulated servers may make faster than
// those of the clock, and the clock's only while it goes on; of a service, the clock's.

import type { RequestRecord } from "../api/types";
import { clock, day, elapsed, span } from "./format";

export const isOpen = (record: RequestRecord): boolean => record.status === "open" || record.status === "accepted";

export function took(record: RequestRecord): string {
  const [from, to] = record.arrived !== undefined ? [record.arrived, record.ended ?? null] : [record.accepted_at, record.ended_at];
  return from === null || to === null ? "–" : span(to - from);
}

export function came(record: RequestRecord, withDay = false): string {
  if (record.arrived !== undefined) return record.arrived === null ? "–" : elapsed(record.arrived, 0.1);
  if (record.accepted_at === null) return "–";
  return withDay ? `${day(record.accepted_at)}, ${clock(record.accepted_at)}` : clock(record.accepted_at);
}
