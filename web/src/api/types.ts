// What the server answers. Times are seconds since the service or the run began, but those in `_at`, which are Unix seconds.

export type BarKind = "run" | "load";
export type GpuState = "idle" | "running" | "loading" | "lost";
export type RunState = "running" | "stopping" | "finished" | "interrupted" | "waiting for servers";

export interface Gpu {
  gpu: number;
  server: number;
  state: GpuState;
  models: string[];
  loading: string | null;
  memory_gb: number;
  memory_total_gb: number | null;
  batch: number;
  free_in: number;
}

export interface BackendState {
  name: string;
  gpus: number[];
  up: boolean;
  down_seconds: number | null;
}

export interface Counts {
  open: number;
  waiting_nodes: number;
  running_nodes: number;
  completed: number;
  failed: number;
  cancelled: number;
  executions: number;
  loads: number;
  evictions: number;
  retries: number;
}

/** The last minutes in buckets of equal length, oldest first. */
export interface Minutes {
  bucket_seconds: number;
  from: number;
  completed: number[];
  executions: number[];
  loads: number[];
  p50: (number | null)[];
  p99: (number | null)[];
  waiting: number[];
}

/** How long requests took that ended in the last seconds; without a number of them, in the whole run. */
export interface Latency {
  window_seconds: number | null;
  p50: number | null;
  p99: number | null;
}

export interface ModelState {
  name: string;
  waiting: number;
  longest_wait: number;
  why: string | null;
  resident_on: number[];
}

export interface WorkflowNode {
  node: string;
  model: string;
  after: string[];
}

export interface Workflow {
  id: string;
  name: string;
  inputs: string[];
  nodes: WorkflowNode[];
}

export interface Overview {
  source: "serve" | "run" | "log";
  title: string;
  version: string;
  started_at: number | null;
  now: number;
  state: RunState;
  why: string | null;
  policy: string;
  can: { submit: boolean; cancel: boolean; what_if: boolean };
  gpus: Gpu[];
  backends: BackendState[];
  counts: Counts;
  minutes: Minutes;
  /** Servers of older versions do not tell it. */
  latency?: Latency;
  models: ModelState[];
  workflows: Workflow[];
  policies: string[];
}

/** Something that took time on GPUs. */
export interface Work {
  kind: BarKind;
  gpus: number[];
  model: string;
  request: string | null;
  node: string | null;
  start: number;
}

export interface Bar extends Work {
  seq: number;
  end: number;
  ok: boolean;
  why: string | null;
}

export interface Ongoing extends Work {
  expected_end: number | null;
}

export type HappeningKind =
  | "evicted" | "failed" | "retried" | "lost" | "back" | "accepted" | "completed" | "cancelled" | "given_up";

export interface Happening {
  seq: number;
  t: number;
  kind: HappeningKind;
  text: string;
  request: string | null;
  model: string | null;
  gpus: number[];
}

export interface HistoryPage {
  first: number;
  last: number;
  more: boolean;
  bars: Bar[];
  ongoing: Ongoing[];
  happenings: Happening[];
}

export interface QueueNode {
  node: string;
  model: string;
  state: "waiting" | "ready" | "running" | "done" | "given up";
  position?: number;
  waited?: number;
  why?: string;
}

export interface QueuedRequest {
  request_id: string;
  workflow_id: string;
  kind: "call" | "workflow";
  accepted_at: number | null;
  priority: number;
  trouble: unknown;
  nodes: QueueNode[];
  status?: string;
}

export interface Queue {
  open: number;
  waiting_nodes: number;
  requests: QueuedRequest[];
}

/** A request that the server has written down. */
export interface RequestRecord {
  request_id: string;
  workflow_id: string;
  status: string;
  why: string | null;
  accepted_at: number | null;
  ended_at: number | null;
  /** Of a run only: seconds since it began. */
  arrived?: number | null;
  ended?: number | null;
  priority?: number;
  deadline_seconds?: number;
  deadline_missed?: boolean;
  outputs?: Record<string, unknown>;
  failures?: { node: string; at: number; why: string }[];
}

export interface Submission {
  input_data: Record<string, string>;
  request_id?: string;
  priority?: number;
  deadline_seconds?: number;
}

export interface Accepted {
  request_id: string;
  status: string;
  warnings: string[];
}

export interface PlannedBar extends Work {
  end: number;
}

export interface Outcome {
  policy: string;
  gpus: number;
  requests: number;
  ends_in: number;
  mean: number;
  p50: number;
  p99: number;
  loads: number;
  utilisation: number;
  bars: PlannedBar[];
}

export interface WhatIf {
  as_it_is: Outcome;
  what_if: Outcome;
  assumed: string[];
}
