// The numbers that say most.

import type { Overview } from "../api/types";
import { count, plural, span } from "../parts/format";
import { wasCutOff } from "../state/live";

/** How many in a minute, over up to the last minute of buckets. */
export function perMinute(values: number[], bucket: number): number {
  // The bucket that is being filled would make every rate look lower than it is.
  const whole = values.length > 1 ? values.slice(0, -1) : values;
  const last = whole.slice(-Math.max(1, Math.round(60 / bucket)));
  return last.length ? (last.reduce((sum, value) => sum + value, 0) / (last.length * bucket)) * 60 : 0;
}

/** P50 of the time that requests took, and a note: P99, and of which requests. */
export function latencyOf({ latency }: Pick<Overview, "latency">): { value: string; note: string } {
  const { p50, p99, window_seconds: seconds } = latency;
  const window = seconds === null ? "whole run" : seconds === 60 ? "last minute" : `last ${span(seconds)}`;
  if (p50 === null) return { value: "–", note: seconds === null ? "none has ended" : `none ended, ${window}` };
  return { value: span(p50), note: [p99 === null ? "" : `P99 ${span(p99)}`, window].filter(Boolean).join(", ") };
}

const rate = (value: number): string => (value >= 10 ? count(Math.round(value)) : value.toFixed(1));

/** Of a run that is over: what it came to, not what is going on. */
function finished({ counts, gpus, latency, now }: Overview): [string, string, string, string][] {
  const all = counts.completed + counts.failed + counts.cancelled;
  const [p50, p99] = [latency.p50, latency.p99].map((value) => (value === null ? "–" : span(value)));
  return [
    ["latency", "Latency P99", p99 as string, `P50 ${p50}, whole run`],
    ["completed", "Completed", count(counts.completed), counts.completed === all ? "all requests" : `of ${plural(all, "request")}`],
    ["took", "Took", span(now), `on ${plural(gpus.length, "GPU")}`],
    ["executions", "Executions", count(counts.executions), now > 0 ? `${rate((counts.executions / now) * 60)} a minute` : ""],
    ["loads", "Loads", count(counts.loads), `${plural(counts.evictions, "eviction")}`],
    ["failed", "Failed", count(counts.failed), `${plural(counts.retries, "retry", "retries")}${counts.cancelled ? `, ${count(counts.cancelled)} cancelled` : ""}`],
  ];
}

export function Cards({ overview }: { overview: Overview }) {
  const { counts, minutes, gpus } = overview;
  const cutOff = wasCutOff(overview);
  const busy = gpus.filter((gpu) => gpu.state === "running").length;
  const loading = gpus.filter((gpu) => gpu.state === "loading").length;
  const lost = gpus.filter((gpu) => gpu.state === "lost").length;
  const latency = latencyOf(overview);
  const wait = Math.max(0, ...overview.models.map((model) => (model.waiting ? model.longest_wait : 0)));
  const cards: [string, string, string, string][] = overview.state === "finished" ? finished(overview) : [
    cutOff ? ["gpus-busy", "GPUs at work", `0/${gpus.length}`, `${busy + loading} were`] : ["gpus-busy", "GPUs at work", `${busy}/${gpus.length}`, [loading && `${loading} loading`, lost && `${lost} lost`].filter(Boolean).join(", ") || (busy < gpus.length ? `${gpus.length - busy} idle` : "all of them")],
    ["open", "Open requests", count(counts.open), `${plural(counts.running_nodes, "node")} ${cutOff ? (counts.running_nodes === 1 ? "was running" : "were running") : "running"}`],
    ["waiting", "Nodes waiting", count(counts.waiting_nodes), counts.waiting_nodes ? `longest ${span(wait)}` : "nobody waits"],
    ["latency", "Latency P50", latency.value, latency.note],
    ["completed", "Completed", count(counts.completed), `${rate(perMinute(minutes.completed, minutes.bucket_seconds))} a minute`],
    ["executions", "Executions", count(counts.executions), `${rate(perMinute(minutes.executions, minutes.bucket_seconds))} a minute`],
    ["loads", "Loads", count(counts.loads), `${plural(counts.evictions, "eviction")}`],
    ["failed", "Failed", count(counts.failed), `${plural(counts.retries, "retry", "retries")}${counts.cancelled ? `, ${count(counts.cancelled)} cancelled` : ""}`],
  ];
  return (
    <dl class="cards" aria-label="Numbers">
      {cards.map(([id, name, value, note]) => (
        <div class={`card ${id === "failed" && counts.failed ? "bad" : ""}`} key={id} data-card={id}>
          <dt>{name}</dt><dd class="value">{value}</dd><dd class="note">{note}</dd>
        </div>
      ))}
    </dl>
  );
}
