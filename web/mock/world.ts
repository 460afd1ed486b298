// A world that looks like a busy cluster, made from a seed: for looking at the page and for tests of what no real server does
// on demand (ten thousand that wait, a server that is lost). It schedules nothing; the real server is tested against too.

import type { Bar, GpuStatus, Happening, HappeningKind, ModelStatus, OngoingBar, Overview, QueuedRequest, RequestRecord, RunState } from "../src/api/types";

export interface Options {
  gpus: number;
  perServer: number;
  /** Seconds that have gone by when it begins. */
  past: number;
  waiting: number;
  state: RunState;
  source: Overview["source"];
  /** A GPU that is lost, or none. */
  lost: number | null;
  /** Seconds that a bar takes on average. */
  length: number;
}

export const MODELS = ["llama-70b", "qwen-vl-7b", "sdxl", "whisper-large", "reranker", "embedder", "flux-dev"];
const NODES = ["draft", "judge", "paint", "hear", "rank", "index", "render"];
const BUCKET = 5;

/** The generator mulberry32: the same seed, the same world. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export class World {
  readonly bars: Bar[] = [];
  readonly happenings: Happening[] = [];
  readonly records = new Map<string, RequestRecord>();
  readonly inputs = new Map<string, unknown>();
  started = Date.now() / 1000;
  state: RunState;
  lost: number | null;
  private seq = 0;
  private requests = 0;
  private readonly dice = random(7);
  private readonly held: number[];
  private going: (Bar | null)[];

  constructor(readonly options: Options) {
    this.state = options.state;
    this.lost = options.lost;
    this.started -= options.past;
    this.held = Array.from({ length: options.gpus }, (_, gpu) => gpu % MODELS.length);
    this.going = this.held.map(() => null);
    this.step();
  }

  now(): number {
    const ended = this.state === "finished" || this.state === "interrupted";
    return ended ? this.options.past : Date.now() / 1000 - this.started;
  }

  get last(): number {
    return this.seq;
  }

  happen(kind: HappeningKind, t: number, text: string, more: Partial<Happening> = {}): void {
    this.happenings.push({ seq: ++this.seq, t, kind, text, request: null, model: null, gpus: [], ...more });
  }

  /** Lets what is due by now happen, in the order of time. */
  step(): void {
    const now = this.now();
    for (;;) {
      let first = -1;
      this.going = this.going.map((bar, gpu) => bar ?? this.begin(gpu, this.dice() * 2));
      this.going.forEach((bar, gpu) => {
        if (bar && bar.end <= now && (first < 0 || bar.end < (this.going[first] as Bar).end)) first = gpu;
      });
      if (first < 0) break;
      const bar = this.going[first] as Bar;
      this.end(bar, first);
      this.going[first] = this.begin(first, bar.end + (this.dice() < 0.3 ? this.dice() * this.options.length : 0.01));
    }
    for (const record of this.records.values()) this.finish(record, now);
  }

  private begin(gpu: number, start: number): Bar {
    const load = this.dice() < 0.1;
    if (load) this.held[gpu] = Math.floor(this.dice() * MODELS.length);
    const model = MODELS[this.held[gpu] as number] as string;
    const length = this.options.length * (load ? 0.6 + this.dice() : 0.2 + this.dice() * 1.8);
    const request = load ? null : `req-${String(Math.floor(++this.requests / 3)).padStart(5, "0")}`;
    const ok = load || this.dice() > 0.008;
    return {
      seq: 0, kind: load ? "load" : "run", gpus: [gpu], model, request, node: load ? null : (NODES[this.held[gpu] as number] as string), start, end: start + length,
      ok, why: ok ? null : "the server answered 500: CUDA out of memory",
    };
  }

  private end(bar: Bar, gpu: number): void {
    this.bars.push({ ...bar, seq: ++this.seq });
    const about = { request: bar.request, model: bar.model, gpus: [gpu] };
    if (bar.kind === "load") this.happen("evicted", bar.start, `another model made room for ${bar.model} on GPU ${gpu}`, { ...about, request: null });
    if (!bar.ok) {
      this.happen("failed", bar.end, `${bar.request}/${bar.node} failed on GPU ${gpu}: ${bar.why}`, about);
      this.happen("retried", bar.end, `${bar.request}/${bar.node} is tried again, for the second time`, about);
    } else if (bar.kind === "run" && this.dice() < 0.33) this.happen("completed", bar.end, `${bar.request} is completed`, { request: bar.request });
  }

  private finish(record: RequestRecord, now: number): void {
    if (record.ended_at !== null || this.started + now - (record.accepted_at ?? 0) < 2) return;
    record.status = "completed";
    record.ended_at = (record.accepted_at ?? 0) + 2;
    record.outputs = { draft: { text: `An answer to ${JSON.stringify(this.inputs.get(record.request_id))}` } };
    this.happen("completed", now, `${record.request_id} is completed`, { request: record.request_id });
  }

  ongoing(): OngoingBar[] {
    const now = this.now();
    if (this.state === "finished") return [];
    return this.going.flatMap((bar, gpu) => {
      if (!bar || bar.start > now || gpu === this.lost) return [];
      const { kind, gpus, model, request, node, start, end } = bar;
      return [{ kind, gpus, model, request, node, start, ok: true, why: null, expected_end: end }];
    });
  }

  gpus(): GpuStatus[] {
    const now = this.now();
    return this.going.map((bar, gpu) => {
      const model = MODELS[this.held[gpu] as number] as string;
      const busy = bar !== null && bar.start <= now && this.state !== "finished";
      const state = gpu === this.lost ? "lost" : !busy ? "idle" : bar.kind === "load" ? "loading" : "running";
      const models = state === "lost" ? [] : state === "loading" ? ["embedder"] : model === "embedder" ? [model] : [model, "embedder"];
      return {
        gpu, server: Math.floor(gpu / this.options.perServer), state, models, loading: state === "loading" ? model : null,
        memory_gb: state === "lost" ? 0 : models.length * 21.5 + (gpu % 5) * 4, memory_total_gb: 80, batch: state === "running" ? 1 + (gpu % 3) : 0, free_in: busy ? Math.max(0, bar.end - now) : 0, overdue: busy && gpu % 8 === 5 ? 2.4 : 0,
      };
    });
  }

  /** The n-th of those who wait. */
  queued(at: number): QueuedRequest {
    const model = at % MODELS.length;
    const mine = [...this.records.values()].filter((record) => record.ended_at === null)[at];
    return {
      request_id: mine?.request_id ?? `wait-${String(at).padStart(5, "0")}`, workflow_id: mine?.workflow_id ?? "story", kind: "workflow", accepted_at: this.started + this.now() - at * 0.01,
      priority: at % 9 === 0 ? 5 : 0, trouble: null,
      nodes: [
        { node: "draft", model: MODELS[model] as string, state: at < 3 ? "running" : at % 4 === 0 ? "done" : "ready", position: at, waited: 4.2, why: `all 2 replicas are busy, the first for about another 1.4 s` },
        { node: "judge", model: MODELS[(model + 1) % MODELS.length] as string, state: at % 4 === 0 ? "ready" : "waiting", position: at, why: at % 4 === 0 ? "the model is not loaded; it will be loaded when more requests wait for it, or at the waiting limit" : "it needs the output of draft" },
        { node: "index", model: "embedder", state: "waiting", why: "it needs the output of draft, judge" },
      ],
    };
  }

  open(): number {
    const mine = [...this.records.values()].filter((record) => record.ended_at === null).length;
    return Math.max(this.options.waiting, mine);
  }

  models(): ModelStatus[] {
    const gpus = this.gpus();
    return MODELS.map((name, at) => ({
      name, waiting: at < 4 ? Math.floor(this.options.waiting / (at + 2)) : 0, longest_wait: at < 4 ? 4.2 / (at + 1) : 0,
      why: at < 4 ? (at % 2 ? "the model is not loaded and all GPUs are busy; the first that could take it, GPU 3, is busy for about another 2.1 s" : "all 2 replicas are busy, the first overdue by 1.4 s") : null,
      resident_on: gpus.filter((gpu) => gpu.models.includes(name)).map((gpu) => gpu.gpu),
    }));
  }

  overview(): Overview {
    const now = this.now();
    const buckets = Math.min(180, Math.max(1, Math.ceil(now / BUCKET)));
    const from = Math.max(0, Math.ceil(now / BUCKET) - buckets) * BUCKET;
    const tally = (times: number[]): number[] => {
      const many = new Array<number>(buckets).fill(0);
      for (const time of times) {
        const at = Math.floor((time - from) / BUCKET);
        if (at >= 0 && at < buckets) many[at]!++;
      }
      return many;
    };
    const runs = this.bars.filter((bar) => bar.kind === "run");
    const loads = this.bars.filter((bar) => bar.kind === "load");
    const done = this.happenings.filter((one) => one.kind === "completed");
    const [executions, completed] = [tally(runs.map((bar) => bar.end)), tally(done.map((one) => one.t))];
    const wave = (at: number): number => 3 + Math.sin((from / BUCKET + at) / 9) + ((from / BUCKET + at) * 7919 % 13) / 13;
    const lostGpus = this.gpus().filter((gpu) => gpu.state === "lost").map((gpu) => gpu.gpu);
    const many = (kind: HappeningKind): number => this.happenings.filter((one) => one.kind === kind).length;
    const live = this.options.source === "serve";
    return {
      source: this.options.source, title: "examples/mixed", version: "0.1.0", started_at: this.started, now, speed: 1, state: this.state, why: null, policy: "adaptive",
      can: { submit: live, cancel: live, what_if: live }, gpus: this.gpus(),
      backends: [{
        name: "rack-a", gpus: lostGpus, up: lostGpus.length === 0, down_seconds: lostGpus.length ? 35 : null,
        state: lostGpus.length ? "gone" as const : "ready" as const, why: lostGpus.length ? "connection refused" : null,
      }],
      counts: {
        open: this.open(), waiting_nodes: this.options.waiting, running_nodes: this.ongoing().length, completed: done.length, failed: 0,
        cancelled: [...this.records.values()].filter((record) => record.status === "cancelled").length, executions: runs.length, loads: loads.length, evictions: many("evicted"), retries: many("retried"), violations: 0,
      },
      minutes: {
        bucket_seconds: BUCKET, from, completed, executions, loads: tally(loads.map((bar) => bar.end)),
        p50: completed.map((value, at) => (value ? wave(at) * this.options.length / 3 : null)), p99: completed.map((value, at) => (value ? wave(at) * 2.3 * this.options.length / 3 : null)), waiting: executions.map((_, at) => Math.round(wave(at) * 4)),
      },
      latency: { window_seconds: this.state === "finished" || this.state === "interrupted" ? null : 60, p50: done.length ? this.options.length : null, p99: done.length ? this.options.length * 2.3 : null },
      workflow_latency: ["story", "poster"].map((workflow, at) => ({ workflow, completed: Math.ceil(done.length / (at + 2)), mean: 3.1 / (at + 1), p50: 2.9 / (at + 1), p99: 7.4 / (at + 1) })).filter((one) => one.completed > 0),
      slowest: done.slice(0, 10).map((one, at) => ({ request: one.request ?? "", workflow: at % 2 ? "poster" : "story", arrived: Math.max(0, one.t - 8 + at / 2), latency: 8 - at / 2, waiting: 4 - at / 4, loading: 1, executing: 3 - at / 4, why: `judge waited ${(3 - at / 5).toFixed(1)} s for GPUs` })),
      models: this.models(),
      workflows: [
        { id: "story", name: "A story, and what a critic says of it", inputs: ["wish"], nodes: [{ node: "draft", model: "llama-70b", after: [] }, { node: "judge", model: "qwen-vl-7b", after: ["draft"] }] },
        { id: "poster", name: "A poster", inputs: ["subject", "style"], nodes: [{ node: "paint", model: "sdxl", after: [] }] },
      ],
      policies: ["adaptive", "planned", "baseline"],
    };
  }
}
