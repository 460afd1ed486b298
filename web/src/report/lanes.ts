// The bars of a report by GPU, ready to be drawn at any zoom: bars that would share a pixel are merged beforehand, two by two.

import type { Drawn, LaneView, LanesView, Merged, Piece } from "../timeline/lanes";
import type { Run } from "./columns";

const at = (values: ArrayLike<number>, place: number): number => values[place] as number;

/** An execution of a run, or a load. Names are looked up only where they are shown. */
export class RowBar implements Drawn {
  constructor(private readonly run: Run, readonly row: number, readonly kind: "run" | "load") {}

  get start(): number {
    return at(this.kind === "load" ? this.run.begin : this.run.start, this.row);
  }

  get end(): number {
    return at(this.kind === "load" ? this.run.start : this.run.end, this.row);
  }

  get model(): string {
    return (this.run.models[at(this.run.model, this.row)] as [string, number])[0];
  }

  get gpus(): number[] {
    return Array.from({ length: gpusOf(this.run, this.row) }, (_, more) => at(this.run.gpu, this.row) + more);
  }

  get ok(): boolean {
    return !this.run.status.has(this.row);
  }

  private get place(): [request: number, node: number] | null {
    const { run } = this;
    const task = at(run.task, this.row);
    if (task < 0) return null;
    const request = at(run.request, task);
    return [request, task - at(run.firstTask, request)];
  }

  get request(): string | null {
    return this.place && this.run.name(this.place[0]);
  }

  get node(): string | null {
    const { place, run } = this;
    return place && (run.workflows[at(run.workflow, place[0])]?.[1][place[1]] ?? null);
  }

  /** `request/node`, or the load. */
  get name(): string {
    return this.place ? `${this.request}/${this.node}` : `load of ${this.model} before any execution needs it`;
  }
}

export const gpusOf = (run: Run, row: number): number =>
  Math.min((run.models[at(run.model, row)] as [string, number])[1], run.gpus - at(run.gpu, row));

/** A level has half as many nodes as the one below. */
interface Level {
  begin: Float64Array;
  end: Float64Array;
  busy: Float32Array;
  load: Float32Array;
  /** The time of the model that has most of it. */
  most: Float32Array;
  model: Uint16Array;
}

/** The first place in a sorted range at which `passes` holds. */
function firstWhere(count: number, passes: (place: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (passes(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

export class RunLane implements LaneView {
  readonly slots: number;
  private readonly slot: Uint8Array;
  /** The latest end of all bars up to each. */
  private readonly reach: Float64Array;
  private readonly levels: Level[];

  constructor(private readonly run: Run, readonly rows: Uint32Array) {
    this.slot = new Uint8Array(rows.length);
    this.reach = new Float64Array(rows.length);
    const free: number[] = [];
    let latest = -Infinity;
    for (let place = 0; place < rows.length; place++) {
      const row = at(rows, place);
      // Executions of a batch overlap: each takes the first slot that is free.
      let slot = free.findIndex((until) => until <= at(run.begin, row) + 1e-9);
      if (slot < 0) slot = free.length < 64 ? free.push(0) - 1 : 63;
      free[slot] = at(run.end, row);
      this.slot[place] = slot;
      latest = Math.max(latest, at(run.end, row));
      this.reach[place] = latest;
    }
    this.slots = Math.max(1, free.length);
    this.levels = levelsOf(run, rows);
  }

  /** The places of the bars that go on between two moments: from the first to before the last. */
  visible(from: number, to: number): [number, number] {
    const { rows, run, reach } = this;
    return [firstWhere(rows.length, (place) => at(reach, place) > from), firstWhere(rows.length, (place) => at(run.begin, at(rows, place)) >= to)];
  }

  within(from: number, to: number, visit: (piece: Piece) => void): void {
    const [first, last] = this.visible(from, to);
    for (let place = first; place < last; place++) {
      const [row, slot] = [at(this.rows, place), at(this.slot, place)];
      if (at(this.run.start, row) > at(this.run.begin, row)) visit({ bar: new RowBar(this.run, row, "load"), slot });
      if (at(this.run.task, row) >= 0) visit({ bar: new RowBar(this.run, row, "run"), slot });
    }
  }

  slotsFor(starts: number[]): number[] {
    return starts.map(() => 0);
  }

  merged(from: number, to: number, pixels: number): Merged[] | null {
    const [first, last] = this.visible(from, to);
    let level = -1;
    while ((last - first) / 2 ** (level + 1) > pixels && level + 1 < this.levels.length) level++;
    const nodes = this.levels[level];
    if (!nodes) return null;
    const [one, end] = [first >> (level + 1), (last - 1) >> (level + 1)];
    return Array.from({ length: end - one + 1 }, (_, more) => {
      const node = one + more;
      return { start: at(nodes.begin, node), end: at(nodes.end, node), busy: at(nodes.busy, node), loading: at(nodes.load, node),
        model: (this.run.models[at(nodes.model, node)] as [string, number])[0] };
    });
  }
}

function levelsOf(run: Run, rows: Uint32Array): Level[] {
  const levels: Level[] = [];
  for (let size = Math.ceil(rows.length / 2); rows.length > 1; size = Math.ceil(size / 2)) {
    const below = levels.at(-1);
    const [begin, end, busy, load, most] = [new Float64Array(size), new Float64Array(size), new Float32Array(size), new Float32Array(size), new Float32Array(size)];
    const model = new Uint16Array(size);
    const total = below ? below.begin.length : rows.length;
    begin.fill(Infinity);
    for (let part = 0; part < total; part++) {
      const [node, row] = [part >> 1, at(rows, part)];
      const worked = below ? at(below.busy, part) : at(run.end, row) - at(run.begin, row);
      const own = below ? at(below.most, part) : worked;
      const whose = at(below ? below.model : run.model, below ? part : row);
      begin[node] = Math.min(at(begin, node), below ? at(below.begin, part) : at(run.begin, row));
      end[node] = Math.max(at(end, node), below ? at(below.end, part) : at(run.end, row));
      load[node] = at(load, node) + (below ? at(below.load, part) : at(run.start, row) - at(run.begin, row));
      busy[node] = at(busy, node) + worked;
      if (whose === at(model, node) && at(most, node) > 0) most[node] = at(most, node) + own;
      else if (own > at(most, node)) [most[node], model[node]] = [own, whose];
    }
    levels.push({ begin, end, busy, load, most, model });
    if (size === 1) break;
  }
  return levels;
}

export class RunLanes implements LanesView {
  private readonly lanes: RunLane[];

  constructor(readonly run: Run) {
    const each = (visit: (gpu: number, row: number) => void): void => {
      for (let row = 0; row < run.count; row++) {
        const first = at(run.gpu, row);
        const end = first + gpusOf(run, row);
        for (let gpu = first; gpu < end; gpu++) visit(gpu, row);
      }
    };
    const counts = new Uint32Array(run.gpus);
    each((gpu) => (counts[gpu] = at(counts, gpu) + 1));
    const rows = Array.from(counts, (count) => new Uint32Array(count));
    counts.fill(0);
    each((gpu, row) => {
      const place = at(counts, gpu);
      (rows[gpu] as Uint32Array)[place] = row;
      counts[gpu] = place + 1;
    });
    this.lanes = rows.map((own) => new RunLane(run, own));
  }

  of(gpu: number): RunLane {
    return this.lanes[gpu] as RunLane;
  }
}

export interface Wait {
  own: number;
  executing: number;
  loading: number;
  idle: number;
  /** The bar that ended last before, or -1. */
  before: number;
}

/** How a bar's wait was spent, by what its GPUs did: the rule is that of `gswarm explain`. */
export function waitOf(lanes: RunLanes, row: number): Wait {
  const { run } = lanes;
  const [start, model] = [at(run.start, row), at(run.model, row)];
  const ready = start - at(run.wait, row);
  const parts: Wait = { own: 0, executing: 0, loading: 0, idle: 0, before: -1 };
  if (at(run.task, row) < 0 || at(run.wait, row) <= 0) return parts;
  const edges: [time: number, step: number, kind: number][] = [];
  const add = (from: number, to: number, kind: number): void => {
    if (Math.min(to, start) > Math.max(from, ready)) edges.push([Math.max(from, ready), 1, kind], [Math.min(to, start), -1, kind]);
  };
  for (const gpu of new RowBar(run, row, "run").gpus) {
    const lane = lanes.of(gpu);
    const [first, last] = lane.visible(ready, start);
    for (let place = first; place < last; place++) {
      const other = at(lane.rows, place);
      const mine = at(run.model, other) === model && (other === row || at(run.start, other) === start || at(run.task, other) < 0);
      add(at(run.begin, other), at(run.start, other), mine ? 0 : 2);
      if (other === row) continue;
      add(at(run.start, other), at(run.end, other), 1);
      const end = at(run.end, other);
      if (at(run.task, other) >= 0 && end <= start && end > ready && (parts.before < 0 || end > at(run.end, parts.before))) parts.before = other;
    }
  }
  edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = [0, 0, 0];
  let since = ready;
  const spend = (until: number): void => {
    const kind = (["own", "executing", "loading"] as const)[open.findIndex((count) => count > 0)] ?? "idle";
    parts[kind] += until - since;
    since = until;
  };
  for (const [time, step, kind] of edges) {
    spend(time);
    open[kind] = at(open, kind) + step;
  }
  spend(start);
  return parts;
}
