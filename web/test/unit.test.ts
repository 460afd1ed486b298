// What needs no browser.

import assert from "node:assert/strict";
import test from "node:test";
import { deflateSync } from "node:zlib";
import type { Bar, Happening, HistoryPage, RequestRecord, WhatIfOutcome } from "../src/api/types";
import { chosen } from "../src/panels/Happenings";
import { compared, verdict } from "../src/panels/compare";
import { latencyOf, perMinute } from "../src/panels/Cards";
import { reason } from "../src/panels/Queue";
import { submissionOf } from "../src/panels/Submit";
import { roundUp, roundUpEven, roundUpTime } from "../src/parts/Chart";
import { colour, inkOn } from "../src/parts/colours";
import { came, isOpen, took } from "../src/parts/record";
import { elapsed, gigabytes, plainly, ranges, span } from "../src/parts/format";
import { type Packed, readRun } from "../src/report/columns";
import { type RowBar, RunLanes, waitOf } from "../src/report/lanes";
import { changes } from "../src/state/announce";
import { History } from "../src/state/history";
import { pauseAfter } from "../src/state/live";
import { Lanes, type Piece } from "../src/timeline/lanes";
import { layoutOf, rowAt } from "../src/timeline/layout";
import { all, followed, panned, showing, ticks, zoomed } from "../src/timeline/window";

const bar = (seq: number, start: number, end: number, more: Partial<Bar> = {}): Bar =>
  ({ seq, kind: "run", gpus: [0], model: "m", request: `r${seq}`, node: "n", start, end, ok: true, why: null, ...more });
const page = (bars: Bar[], more: Partial<HistoryPage> = {}): HistoryPage =>
  ({ first: 1, last: bars.at(-1)?.seq ?? 0, more: false, bars, ongoing: [], happenings: [], ...more });

test("times and sizes read as people say them", () => {
  const spans: [number, string][] = [[0, "0 s"], [0.25, "250 ms"], [0.9999, "1.0 s"], [4.25, "4.3 s"], [42.4, "42 s"], [125, "2 min 5 s"], [3600, "1 h"], [3725, "1 h 2 min"], [200_000, "2 d 7 h"], [-2, "−2.0 s"], [Infinity, "–"]];
  for (const [value, text] of spans) assert.equal(span(value), text);
  const times: [number, number, string][] = [[5, 1, "5 s"], [5.25, 0.05, "5.25 s"], [65, 1, "1:05"], [3725.5, 0.5, "1:02:05.5"], [-3, 1, "−3 s"], [59.9999, 1, "1:00"]];
  for (const [value, step, text] of times) assert.equal(elapsed(value, step), text);
  assert.equal(ranges([3, 1, 2, 7, 8]), "1–3, 7, 8");
  assert.deepEqual([gigabytes(0.08), gigabytes(1.2), gigabytes(80), gigabytes(0)], ["0.08 GB", "1.2 GB", "80 GB", "0 GB"]);
  assert.deepEqual([roundUp(0), roundUp(0.3), roundUp(7), roundUp(21)], [1, 0.5, 10, 25]);
  // The tick in the middle of an axis of whole numbers is one too: no number stands there twice.
  for (const most of [0, 1, 3, 7, 21, 24, 260]) assert.ok(roundUpEven(most) >= most && roundUpEven(most) % 2 === 0, String(most));
});

test("an id is what it looks like", () => {
  assert.equal(plainly("safe\u202Eexe.txt\u2066\n\u200b"), "safe\\u202Eexe.txt\\u2066\\u000A\\u200B");
  assert.equal(plainly("تقرير-7 ✓ größe"), "تقرير-7 ✓ größe", "letters stay");
});

test("labels of an axis of time are round and short", () => {
  assert.deepEqual([0, 0.3, 1.5, 47, 170, 200, 3700, 90_000].map(roundUpTime), [1, 0.5, 2, 60, 240, 240, 7200, 172_800]);
  for (let value = 0.001; value < 1e6; value *= 1.07) {
    const top = roundUpTime(value);
    assert.ok(top >= value * 0.999 && top < value * 4, `${value}: ${top}`);
    for (const label of [span(top), span(top / 2)]) assert.ok(label.length <= 8, `${value}: ${label}`);
  }
});

test("text on a bar reads on its colour", () => {
  assert.equal(inkOn("#0072b2"), "#ffffff");
  assert.equal(inkOn("#e69f00"), "#000000");
  assert.equal(new Set(Array.from({ length: 18 }, (_, number) => colour(number))).size, 18);
});

test("bars that overlap lie in different slots, others in one", () => {
  const lanes = new Lanes<Bar>();
  for (const one of [bar(1, 0, 2), bar(2, 1, 3), bar(3, 2, 4), bar(4, 0.5, 5)]) lanes.add(one);
  const pieces: Piece<Bar>[] = [];
  lanes.of(0).within(-1, 10, (piece) => void pieces.push(piece));
  assert.deepEqual(pieces.map((piece) => piece.slot), [0, 1, 0, 2]);
  for (const a of pieces) for (const b of pieces) {
    if (a !== b && a.slot === b.slot) assert.ok(a.bar.end <= b.bar.start || b.bar.end <= a.bar.start);
  }
  assert.deepEqual(lanes.of(0).slotsFor([4.5, 4.6]), [0, 1], "what goes on takes slots that are free");
});

test("an answer out of order is put where it belongs", () => {
  const lanes = new Lanes<Bar>();
  for (const one of [bar(1, 0, 1), bar(2, 5, 6), bar(3, 2, 3)]) lanes.add(one);
  const ends: number[] = [];
  lanes.of(0).within(-1, 10, (piece) => void ends.push(piece.bar.end));
  assert.deepEqual(ends, [1, 3, 6]);
});

test("only bars within a span are found, long ones too", () => {
  const lanes = Lanes.from([bar(1, 0, 1), bar(2, 0, 100), bar(3, 40, 41), bar(4, 60, 61)]);
  const found: number[] = [];
  lanes.of(0).within(39, 42, (piece) => void found.push(piece.bar.seq));
  assert.deepEqual(found.sort(), [2, 3]);
});

test("history is asked for piece by piece, and begun anew when the server has", () => {
  const history = new History();
  assert.ok(history.take(page([bar(1, 0, 1), bar(3, 0, 2)], { more: true, last: 9 })));
  assert.equal(history.last, 3);
  assert.ok(history.take(page([bar(3, 0, 2), bar(7, 2, 3)], { last: 9 })));
  assert.deepEqual([history.bars.length, history.last], [3, 9], "what was known already is not counted twice");
  assert.equal(history.take(page([bar(1, 0, 1)], { last: 1 })), false);
  assert.deepEqual([history.bars.length, history.last], [0, 0]);
});

test("history does not grow for ever", () => {
  const history = new History();
  for (let from = 0; from < 70_000; from += 5_000) history.take(page(Array.from({ length: 5_000 }, (_, at) => bar(from + at + 1, from + at, from + at + 1))));
  assert.ok(history.bars.length <= 66_000);
  assert.equal(history.bars.length + history.forgotten, 70_000);
  assert.equal(history.lanes.of(0).pieces.length, history.bars.length);
});

test("zooming, moving and following keep to what there is", () => {
  const limits = { first: 0, last: 100 };
  const seen = zoomed({ from: 0, to: 100, follow: false }, 0.5, 25, limits);
  assert.deepEqual(seen, { from: 12.5, to: 62.5, follow: false });
  assert.equal(zoomed(seen, 1e-9, 25, limits).to - zoomed(seen, 1e-9, 25, limits).from >= 0.001, true);
  assert.ok(panned(seen, 99, limits).from < 100, "something stays in sight");
  assert.ok(panned(seen, -99, limits).to > 0);
  const now = followed({ from: 0, to: 10, follow: true }, 50);
  assert.ok(now.to > 50 && now.to - now.from === 10);
  assert.equal(zoomed(now, 2, 0, limits).follow, true);
  assert.ok(all(limits).from < 0 && all(limits).to > 100);
  assert.equal(showing(seen, 20, 30), seen);
  assert.ok(showing(seen, 90, 95).from < 90);
});

test("labels of the axis are round", () => {
  assert.deepEqual(ticks(0, 60, 6), { step: 10, at: [0, 10, 20, 30, 40, 50, 60] });
  assert.deepEqual(ticks(0.5, 20.5, 2, 3.5).at, [6.5, 16.5]);
  assert.equal(ticks(0, 0.01, 5).step, 0.002);
});

test("servers are set apart", () => {
  const layout = layoutOf([{ gpu: 0, server: 0 }, { gpu: 1, server: 0 }, { gpu: 2, server: 1 }], 400);
  const [, second, third] = layout.rows;
  assert.ok(third && second && third.y > second.y + second.height);
  assert.equal(rowAt(layout, (third?.y ?? 0) + 1)?.gpu, 2);
  assert.ok(layoutOf(Array.from({ length: 64 }, (_, gpu) => ({ gpu, server: 0 })), 600).height < 700);
});

const outcome = (more: Partial<WhatIfOutcome>): WhatIfOutcome => ({ policy: "adaptive", gpus: 4, requests: 10, coming: 0, ends_in: 100, mean: 50, p50: 50, p99: 99, loads: 8, utilisation: 0.5, bars: [], ...more });

test("differences are told in words", () => {
  const then = outcome({ gpus: 6, ends_in: 75, p99: 99.1, loads: 9 });
  const rows = compared(outcome({}), then);
  assert.deepEqual(rows.find((row) => row.name === "All done after")?.words, "25 s sooner (25 %)");
  assert.equal(rows.find((row) => row.name === "P99")?.words, "the same", "a thousandth is nothing");
  assert.deepEqual([rows.find((row) => row.name === "Loads")?.words, rows.find((row) => row.name === "Loads")?.better], ["1 more", false]);
  assert.match(verdict({ as_it_is: outcome({}), what_if: then, assumed: [] }), /^With 6 GPUs, the P99 of the 10 open requests would be 99 s, the same as now; all requests would be done 25 s sooner/);
  const coming = outcome({ coming: 4, p99: 49.5 });
  assert.match(verdict({ as_it_is: outcome({ coming: 4 }), what_if: coming, assumed: [] }), /the P99 of the 6 open requests and 4 to come would be 50 s, 50 s less \(50 %\) than as it is/);
  const none = outcome({ requests: 0, ends_in: 0 });
  assert.match(verdict({ as_it_is: none, what_if: none, assumed: [] }), /No request is open/);
});

test("only changes are said aloud", () => {
  const quiet = { link: "up" as const, state: "running", lost: [], failed: 0 };
  assert.equal(changes(null, quiet), "");
  assert.equal(changes(quiet, quiet), "");
  assert.match(changes(quiet, { ...quiet, link: "down" }), /lost/);
  assert.match(changes({ ...quiet, link: "down" }, quiet), /answers again/);
  assert.match(changes(quiet, { ...quiet, state: "finished", lost: [3], failed: 2 }), /finished.*GPU 3 lost.*2 more failed/);
});

test("a request says why it waits, by the node that could run", () => {
  const request = (state: "ready" | "running") => ({ request_id: "r", workflow_id: "w", kind: "workflow" as const, accepted_at: 0, priority: 0, trouble: null,
    nodes: [{ node: "a", model: "m", state: "done" as const }, { node: "b", model: "m", state, position: 3, why: "its one replica is busy" }] });
  assert.equal(reason(request("ready")), "b: its one replica is busy; 3 before it");
  assert.equal(reason(request("running")), "b runs");
  assert.deepEqual([reason(request("running"), true), reason(request("ready"), true)], ["b was running", "b was ready to run"], "nothing of an interrupted run goes on");
});

test("a submission holds what was filled in, and nothing else", () => {
  const form = new FormData();
  form.set("input wish", " a tale ");
  form.set("priority", "0");
  form.set("deadline_seconds", "");
  assert.deepEqual(submissionOf(["wish"], form), { input_data: { wish: "a tale" }, priority: 0 });
});

test("happenings are filtered by kind and by text, newest first", () => {
  const one = (seq: number, kind: Happening["kind"], text: string): Happening => ({ seq, t: seq, kind, text, request: null, model: null, gpus: [] });
  const list = [one(1, "evicted", "a made way for b"), one(2, "failed", "c failed"), one(3, "evicted", "b made way for c")];
  assert.deepEqual(chosen(list, new Set(), "").map((found) => found.seq), [3, 2, 1]);
  assert.deepEqual(chosen(list, new Set(["Evictions"]), "").map((found) => found.seq), [2]);
  assert.deepEqual(chosen(list, new Set(), "WAY FOR B").map((found) => found.seq), [1]);
});

test("rates leave the bucket out that is being filled, and pauses have an end", () => {
  assert.equal(perMinute([5, 5, 5, 0], 5), 60);
  assert.deepEqual([1, 2, 3, 9].map(pauseAfter), [1000, 2000, 4000, 30_000]);
});

test("the latency says of which requests it is", () => {
  const of = (window_seconds: number | null, p50: number | null, p99: number | null) => latencyOf({ latency: { window_seconds, p50, p99 } });
  assert.deepEqual(of(60, 2, 5), { value: "2.0 s", note: "P99 5.0 s, last minute" });
  assert.deepEqual(of(null, 2, 5), { value: "2.0 s", note: "P99 5.0 s, whole run" });
  assert.deepEqual(of(300, 2, 5).note, "P99 5.0 s, last 5 min");
  assert.deepEqual(of(60, null, null), { value: "–", note: "none ended, last minute" });
});

test("requests are told by the clock of the service or run", () => {
  const real = { speed: 1, started_at: 90 };
  const record: RequestRecord = { request_id: "r", workflow_id: "w", status: "completed", why: null, accepted_at: 100, ended_at: 101 };
  assert.equal(took(record, real), "1.0 s");
  assert.match(came(record, real), /^\d\d:\d\d:\d\d$/);
  // Where models are emulated at a hundred times the speed, a second on the wall is a hundred, as in every latency.
  const fast = { speed: 100, started_at: 90 };
  assert.deepEqual([took(record, fast), came(record, fast)], ["1 min 40 s", "16:40.0"]);
  const run = { ...record, accepted_at: null, ended_at: null, arrived: 2, ended: 14 };
  assert.deepEqual([took(run, fast), came(run, fast), isOpen(run)], ["12 s", "2.0 s", false]);
  assert.deepEqual([took({ ...run, status: "open", ended: null }, real), isOpen({ ...run, status: "open" })], ["–", true]);
});

/** Numbers as a report holds them. */
const packed = (numbers: number[]): string => {
  const bytes = numbers.flatMap((number) => {
    const seven: number[] = [];
    for (; number >= 128; number = Math.floor(number / 128)) seven.push((number % 128) + 128);
    return [...seven, number];
  });
  return deflateSync(Buffer.from(bytes)).toString("base64");
};

/** A request of one node a second, each of two seconds on GPU 0 after a load of one, and a load ahead on GPU 1. */
const report = (count: number): Packed => ({
  tick: 1e-6, count: count + 1, gpus: 2, perServer: null, first: 0, last: count * 3, bound: null, models: [["a", 1], ["b", 1]],
  workflows: [["w", ["n"], [0]]],
  columns: {
    begin: packed([0, 0, ...Array.from({ length: count - 1 }, () => 3_000_000)]), switch: packed(Array.from({ length: count + 1 }, () => 1_000_000)),
    length: packed([0, ...Array.from({ length: count }, () => 2_000_000)]), wait: packed([0, 1_000_000, ...Array.from({ length: count - 1 }, () => 4_000_000)]),
    gpu: packed([1, ...Array.from({ length: count }, () => 0)]), task: packed([0, ...Array.from({ length: count }, () => 2)]),
    batch: packed(Array.from({ length: count + 1 }, () => 1)), loads: [1], unusual: [[2, "failed"]],
  },
  requests: { count, workflow: packed(Array.from({ length: count }, () => 0)), names: deflateSync(Buffer.concat(Array.from({ length: count }, (_, at) => Buffer.from([0, 5, ...Buffer.from(`r${String(at).padStart(4, "0")}`)])))).toString("base64") },
});

test("a report's columns become bars, and those that share pixels become one", async () => {
  const run = await readRun(report(1000));
  const lanes = new RunLanes(run);
  const seen: RowBar[] = [];
  lanes.of(0).within(0, 6, (piece) => void seen.push(piece.bar as RowBar));
  assert.deepEqual(seen.map(({ kind, name, model, start, end, ok }) => [kind, name, model, start, end, ok]), [
    ["load", "r0000/n", "a", 0, 1, true], ["run", "r0000/n", "a", 1, 3, true], ["load", "r0001/n", "a", 3, 4, false], ["run", "r0001/n", "a", 4, 6, false]]);
  lanes.of(1).within(0, 6, ({ bar }) => assert.deepEqual([bar.kind, bar.model, bar.request, bar.gpus], ["load", "b", null, [1]]));
  assert.equal(lanes.of(0).merged(0, 6, 800), null, "few enough to be drawn one by one");
  const merged = lanes.of(0).merged(0, 3000, 250) ?? [];
  assert.equal(merged.length, 250, "four in one");
  assert.deepEqual(merged[0], { start: 0, end: 12, busy: 12, loading: 4, model: "a" });
  assert.deepEqual(waitOf(lanes, 2), { own: 1, executing: 2, loading: 1, idle: 0, before: 1 });
});
