// Generated from the OpenAPI document of `gswarm serve` by `cargo xtask dashboard --types`; do not edit.
//
// Times are seconds since the service or the run began, except fields named `..._at`, which are seconds since 1970.

/** What clients may ask. */
export interface Abilities {
  /** Requests can be cancelled. */
  cancel: boolean;
  /** Requests can be submitted. */
  submit: boolean;
  /** What-if questions are answered. */
  what_if: boolean;
}

/** The answer to a submission. */
export interface AcceptedRequest {
  /** Its name. */
  request_id: string;
  /** Where its outputs can be asked for. */
  result_url: string;
  /** `accepted`; its state where the same request had been submitted before. */
  status: RequestState;
  /** Where its state can be asked for. */
  url: string;
  /** What is odd about it and was let pass. */
  warnings: string[];
}

/** Counts of the last minutes, in buckets of equal length, oldest first. */
export interface ActivitySeries {
  /** Length of a bucket. */
  bucket_seconds: number;
  /** Requests that were completed. */
  completed: number[];
  /** Executions that finished. */
  executions: number[];
  /** When the first bucket begins. */
  from: number;
  /** Loads that finished. */
  loads: number[];
  /** Median request latency, where a request ended. */
  p50: (number | null)[];
  /** 99th percentile of request latency, where a request ended. */
  p99: (number | null)[];
  /** The most nodes that waited. */
  waiting: number[];
}

/** A model server. */
export interface BackendStatus {
  /** For how long it has been out of rotation. */
  down_seconds: number | null;
  /** Its GPUs. */
  gpus: number[];
  /** Its name. */
  name: string;
  /** What is thought of it. */
  state: ServerState;
  /** Whether it is in rotation. */
  up: boolean;
  /** What is wrong with it. */
  why: string | null;
}

/** An execution or a load that has ended. */
export interface Bar {
  /** To. */
  end: number;
  /** Where. */
  gpus: number[];
  /** Execution or load. */
  kind: BarKind;
  /** The model. */
  model: string;
  /** The node; none of a load. */
  node: string | null;
  /** Whether it succeeded. */
  ok: boolean;
  /** The request; none of a load. */
  request: string | null;
  /** Its number. */
  seq: number;
  /** From. */
  start: number;
  /** Why not. */
  why: string | null;
}

/** What a bar stands for. */
export type BarKind = "run" | "load";

/** The answer to a cancellation. */
export interface CancelledRequest {
  /** Its name. */
  request_id: string;
  /** `cancelled`. */
  status: RequestState;
}

/** Totals since the start, and what is open now. */
export interface Counts {
  /** Requests that were cancelled. */
  cancelled: number;
  /** Requests of which every node has finished. */
  completed: number;
  /** Models that were unloaded to make room for others. */
  evictions: number;
  /** Executions that have finished. */
  executions: number;
  /** Requests that were given up. */
  failed: number;
  /** Loads that have finished. */
  loads: number;
  /** Requests that have not ended. */
  open: number;
  /** Attempts that failed, or were on a GPU that was lost, and are retried. */
  retries: number;
  /** Nodes that execute, or wait on their GPUs for their model. */
  running_nodes: number;
  /** Rules that the records of executions break: none, unless gswarm is at fault. */
  violations: number;
  /** Nodes that are ready and wait. */
  waiting_nodes: number;
}

/** What a GPU does. */
export type GpuState = "idle" | "running" | "loading" | "lost";

/** A GPU and what it does. */
export interface GpuStatus {
  /** Executions under way. */
  batch: number;
  /** Expected seconds until it is free. */
  free_in: number;
  /** Its number. */
  gpu: number;
  /** The model that is being loaded. */
  loading: string | null;
  /** Memory that its models take. */
  memory_gb: number;
  /** Memory that it has, where that is known. */
  memory_total_gb: number | null;
  /** The models on it. */
  models: string[];
  /** Seconds by which what it does has outlasted its estimate; 0 where it has not. */
  overdue: number;
  /** The number of its server. */
  server: number;
  /** What it does. */
  state: GpuState;
}

/** Something that happened at a moment. */
export interface Happening {
  /** The GPUs that it is about. */
  gpus: number[];
  /** What. */
  kind: HappeningKind;
  /** The model that it is about. */
  model: string | null;
  /** The request that it is about. */
  request: string | null;
  /** Its number. */
  seq: number;
  /** When. */
  t: number;
  /** A sentence for people. */
  text: string;
}

/** What may happen at a moment. */
export type HappeningKind = "evicted" | "failed" | "retried" | "lost" | "back" | "accepted" | "completed" | "cancelled" | "given_up";

/** A page of what happened, and what is under way now. Bars and happenings share one sequence of numbers. */
export interface HistoryPage {
  /** What took time on GPUs and has ended. */
  bars: Bar[];
  /** The number of the oldest that is kept. */
  first: number;
  /** What happened at a moment. */
  happenings: Happening[];
  /** The number of the latest. */
  last: number;
  /** Whether there is more behind this page. */
  more: boolean;
  /** What takes time on GPUs now. */
  ongoing: OngoingBar[];
}

/** Latency of the requests that ended within a window; without a window, of all of them. */
export interface LatencySummary {
  /** The median. */
  p50: number | null;
  /** The 99th percentile. */
  p99: number | null;
  /** The window before now. */
  window_seconds: number | null;
}

/** What waits for a model. */
export interface ModelQueue {
  /** The longest time that one of them has waited. */
  longest_wait: number;
  /** Its name. */
  model: string;
  /** Nodes that wait for it. */
  waiting: number;
  /** Why they wait. */
  why: string;
}

/** A model: where it is, and what waits for it. */
export interface ModelStatus {
  /** The longest time that one of them has waited. */
  longest_wait: number;
  /** Its name. */
  name: string;
  /** The GPUs that hold it. */
  resident_on: number[];
  /** Nodes that are ready and wait for it. */
  waiting: number;
  /** Why they wait. */
  why: string | null;
}

/** Where a node stands. */
export type NodeState = "waiting" | "ready" | "paused" | "running" | "done" | "given up";

/** An execution or a load under way. */
export interface OngoingBar {
  /** When it is expected to end. */
  expected_end: number | null;
  /** Where. */
  gpus: number[];
  /** Execution or load. */
  kind: BarKind;
  /** The model. */
  model: string;
  /** The node; none of a load. */
  node: string | null;
  /** Always true: it has not failed yet. */
  ok: boolean;
  /** The request; none of a load. */
  request: string | null;
  /** From. */
  start: number;
  /** Always null. */
  why: string | null;
}

/** The state of a service or run, all at once. */
export interface Overview {
  /** Every model server. */
  backends: BackendStatus[];
  /** What clients may ask of it. */
  can: Abilities;
  /** Totals since the start. */
  counts: Counts;
  /** Every GPU. */
  gpus: GpuStatus[];
  /** Request latency of the last minute; of a run that has ended, of all of it. */
  latency: LatencySummary;
  /** The last minutes. */
  minutes: ActivitySeries;
  /** Every model. */
  models: ModelStatus[];
  /** The present time. */
  now: number;
  /** The policies that a what-if may name. */
  policies: string[];
  /** The name of the policy. */
  policy: string;
  /** The slowest of the last requests that completed, slowest first. */
  slowest: SlowRequestRow[];
  /** What is watched. */
  source: OverviewSource;
  /** Seconds of `now` and of all other times in a second of the wall's clock: more than 1 where models are emulated faster than time. */
  speed: number;
  /** When it began, in seconds since 1970, where that is known. */
  started_at: number | null;
  /** What it is doing. */
  state: RunState;
  /** Its name, in a word or two. */
  title: string;
  /** The version of gswarm that answers. */
  version: string;
  /** Why, where there is more to say. */
  why: string | null;
  /** Latency by workflow, over the last requests that completed; the highest P99 first. */
  workflow_latency: WorkflowLatency[];
  /** Every workflow. */
  workflows: WorkflowOutline[];
}

/** What an overview is of. */
export type OverviewSource = "serve" | "run" | "log";

/** The values that a parameter takes. */
export interface ParameterValues {
  /** The greatest number. */
  max?: number | null;
  /** The least number. */
  min?: number | null;
  /** The names to choose from. */
  names?: string[] | null;
  /** `number`, `integer`, `seconds` or `choice`. */
  type: string;
}

/** A simulated execution or load. */
export interface PlannedBar {
  /** To, in seconds from now. */
  end: number;
  /** Where. */
  gpus: number[];
  /** Execution or load. */
  kind: BarKind;
  /** The model. */
  model: string;
  /** The node; none of a load. */
  node: string | null;
  /** The request; none of a load. */
  request: string | null;
  /** From, in seconds from now. */
  start: number;
}

/** All policies. */
export interface PolicyList {
  /** In the order in which people should look at them. */
  policies: PolicyOutline[];
}

/** A policy. */
export interface PolicyOutline {
  /** What it optimises and when to use it. */
  about: string;
  /** How requests may arrive: `offline`, `online`. */
  modes: string[];
  /** As requests and flags spell it. */
  name: string;
  /** Its parameters. */
  parameters: PolicyParameter[];
  /** Whether it is there to be compared with, not to be used. */
  yardstick: boolean;
}

/** A parameter of a policy. */
export interface PolicyParameter {
  /** The value where none is given; null where the parameter is optional. */
  default: unknown;
  /** What it does. */
  help: string;
  /** Its name. */
  name: string;
  /** The values that it takes. */
  value: ParameterValues;
}

/** A page of the open requests, oldest first. */
export interface Queue {
  /** The models that nodes wait for. */
  by_model: ModelQueue[];
  /** All requests that have not ended. */
  open: number;
  /** The requests of this page. */
  requests: QueuedRequest[];
  /** Nodes that are ready and wait. */
  waiting_nodes: number;
}

/** A node of an open request. */
export interface QueuedNode {
  /** Its model. */
  model: string;
  /** Its id. */
  node: string;
  /** Its place among the nodes that are ready for the same model. */
  position?: number | null;
  /** Where it stands. */
  state: NodeState;
  /** How long it has been ready. */
  waited?: number | null;
  /** Why it does not run. */
  why?: string | null;
}

/** A request that has not ended. */
export interface QueuedRequest {
  /** When it was accepted, in seconds since 1970. */
  accepted_at: number | null;
  /** Call or workflow. */
  kind: RequestKind;
  /** Its nodes. */
  nodes: QueuedNode[];
  /** Higher first. */
  priority: number;
  /** Its name. */
  request_id: string;
  status?: RequestState | null;
  /** The last thing that went wrong. */
  trouble: string | null;
  /** The workflow, or the model of a direct call. */
  workflow_id: string;
}

/** An attempt that failed. */
export interface RequestFailure {
  /** When, in seconds since 1970. */
  at: number;
  /** Which node. */
  node: string;
  /** Why. */
  why: string;
}

/** What a request is. */
export type RequestKind = "call" | "workflow";

/** The latest requests. */
export interface RequestList {
  /** Latest first. */
  requests: RequestRecord[];
  /** How many there are in all; only of a run. */
  total?: number | null;
}

/** A request as it is recorded. */
export interface RequestRecord {
  /** When it was accepted, in seconds since 1970. */
  accepted_at: number | null;
  /** When it arrived; only of a run. */
  arrived?: number | null;
  /** Whether it ended after its deadline. */
  deadline_missed?: boolean | null;
  /** As it was submitted. */
  deadline_seconds?: number | null;
  /** When it ended; only of a run. */
  ended?: number | null;
  /** When it ended, in seconds since 1970. */
  ended_at: number | null;
  /** Attempts that failed. */
  failures?: RequestFailure[] | null;
  /** As it was submitted. */
  metadata?: unknown;
  /** Outputs of its nodes. */
  outputs?: Record<string, unknown> | null;
  /** As it was submitted. */
  priority?: number | null;
  /** Its name. */
  request_id: string;
  /** How it ended, if it has. */
  status: RequestState;
  /** The last thing that went wrong. */
  why: string | null;
  /** Its workflow. */
  workflow_id: string;
}

/** How a request ended, if it has. */
export type RequestState = "accepted" | "open" | "completed" | "failed" | "cancelled";

/** Where a request stands: in the queue, or in the records. */
export type RequestStatus = QueuedRequest | RequestRecord;

/** What a service or run is doing. */
export type RunState = "running" | "stopping" | "finished" | "interrupted" | "waiting for servers";

/** The state of a server. */
export type ServerState = "unknown" | "starting" | "ready" | "asleep" | "loading" | "suspect" | "out" | "gone";

/** A slow request. Waiting, loading and executing add up to its latency, unless an attempt failed. */
export interface SlowRequestRow {
  /** When it arrived. */
  arrived: number;
  /** Executing. */
  executing: number;
  /** From then to its end. */
  latency: number;
  /** Loading its own models. */
  loading: number;
  /** Its name. */
  request: string;
  /** Waiting for GPUs, on its critical path. */
  waiting: number;
  /** What cost it most. */
  why: string;
  /** Its workflow. */
  workflow: string;
}

/** A request of a workflow, as it is submitted: for the document. It is read like a file of requests, with the same checks. */
export interface Submission {
  /** From now on. */
  deadline_seconds?: number | null;
  /** What the workflow reads. */
  input_data?: Record<string, unknown>;
  /** Kept as it is. */
  metadata?: unknown;
  /** Options by node. */
  node_configs?: Record<string, unknown>;
  /** What nodes are expected to take, in seconds. */
  node_execution_times?: Record<string, unknown>;
  /** Higher first. */
  priority?: number | null;
  /** What it is to be called; chosen here where nothing is said. The same name and the same content again is the same request. */
  request_id?: string | null;
}

/** The rest of the open work, simulated to its end twice. */
export interface WhatIf {
  /** On the present GPUs, under the present policy. */
  as_it_is: WhatIfOutcome;
  /** Assumptions, in sentences. */
  assumed: string[];
  /** With the changes. */
  what_if: WhatIfOutcome;
}

/** One of the two simulations. */
export interface WhatIfOutcome {
  /** The first executions and loads. */
  bars: PlannedBar[];
  /** Of these, the ones to come. */
  coming: number;
  /** Seconds from now until all of them have ended. */
  ends_in: number;
  /** Its GPUs. */
  gpus: number;
  /** Loads. */
  loads: number;
  /** Mean request latency. */
  mean: number;
  /** Median request latency. */
  p50: number;
  /** 99th percentile of request latency. */
  p99: number;
  /** The name of its policy. */
  policy: string;
  /** Requests that are simulated: those that are open, and those to come. */
  requests: number;
  /** Mean share of the time in which a GPU is busy. */
  utilisation: number;
}

/** What to change: parts of a run specification. */
export interface WhatIfRequest {
  /** The cluster, of which `gpus` can be another number; default: as many as there are. */
  cluster?: Record<string, unknown> | null;
  /** Short for `cluster.gpus`. */
  gpus?: number | null;
  /** The policy: its name, or its name and parameters; default: the present one. Parameters of the present policy that are not given stay as they are. */
  policy?: Record<string, unknown> | null;
}

/** How long the requests of a workflow took. */
export interface WorkflowLatency {
  /** Requests that these figures are of. */
  completed: number;
  /** The mean. */
  mean: number;
  /** The median. */
  p50: number;
  /** The 99th percentile. */
  p99: number;
  /** Its key in the configuration. */
  workflow: string;
}

/** A node of a workflow. */
export interface WorkflowNode {
  /** The nodes whose outputs it needs. */
  after: string[];
  /** The key of its model. */
  model: string;
  /** Its id. */
  node: string;
}

/** A workflow, as far as a form to submit a request needs it. */
export interface WorkflowOutline {
  /** Its key in the configuration. */
  id: string;
  /** The inputs that a request gives. */
  inputs: string[];
  /** Its name. */
  name: string;
  /** Its nodes. */
  nodes: WorkflowNode[];
}
