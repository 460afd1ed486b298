// The last minutes: how long requests took, how many were done, how many waited.

import type { Overview } from "../api/types";
import { Chart, roundUpEven, roundUpTime } from "../parts/Chart";
import { count, span } from "../parts/format";
import { perMinute as lately } from "./Cards";

export function Trends({ overview }: { overview: Overview }) {
  const { minutes } = overview;
  const bucket = minutes.bucket_seconds;
  const ended = overview.state === "finished" || overview.state === "interrupted";
  const all = ended && minutes.from === 0;
  // The bucket that is being filled looks like a fall that there is not.
  const whole = (values: number[]): number[] => (ended || values.length < 3 ? values : values.slice(0, -1));
  const rate = (values: number[]): number[] => whole(values).map((value) => (value * 60) / bucket);
  const perMinute = (value: number): string => (value >= 10 || value === 0 ? count(Math.round(value)) : value.toFixed(1));
  // The numbers beside the names are those of the cards, so that the page says one thing.
  const latency = (value: number | null): string => (value === null ? "–" : span(value));
  const pace = (values: number[], total: number): string => perMinute(ended && overview.now > 0 ? (total / overview.now) * 60 : lately(values, bucket));
  return (
    <section id="trends" aria-labelledby="trends-title">
      <h2 id="trends-title">{all ? "Over the whole run" : ended ? "Its last minutes" : "The last minutes"}</h2>
      <div class="charts">
        <Chart title="Latency of requests" bucket={bucket} over={ended} format={span} round={roundUpTime} empty="No request has ended in the last minutes."
          series={[{ name: "P50", values: minutes.p50, look: "one", now: latency(overview.latency.p50) }, { name: "P99", values: minutes.p99, look: "two", now: latency(overview.latency.p99) }]} />
        <Chart title="Throughput per minute" bucket={bucket} over={ended} format={perMinute} empty="Nothing has run yet."
          series={[{ name: "executions", values: rate(minutes.executions), look: "three", bars: true, now: pace(minutes.executions, overview.counts.executions) }, { name: "requests", values: rate(minutes.completed), look: "one", now: pace(minutes.completed, overview.counts.completed) }]} />
        <Chart title="Waiting nodes" bucket={bucket} over={ended} format={(value) => count(Math.round(value))} round={roundUpEven} empty="Nothing has waited yet."
          series={[{ name: "waiting", values: minutes.waiting, look: "one", now: count(overview.counts.waiting_nodes) }]} />
        <Chart title={`Loads per ${bucket} s`} bucket={bucket} over={ended} format={(value) => count(Math.round(value))} round={roundUpEven} empty="No model has been loaded yet."
          series={[{ name: "all", values: whole(minutes.loads), look: "two", bars: true, now: count(overview.counts.loads) }]} />
      </div>
    </section>
  );
}
