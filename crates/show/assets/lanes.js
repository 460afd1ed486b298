
// The bars of each GPU, ready to be drawn at any zoom: bars that would share a pixel are merged beforehand, two by two.

/** The bars of each GPU, by the moment they begin. */
function lanesOf(run) {
  const counts = new Uint32Array(run.gpus + 1);
  const each = (visit) => {
    for (let row = 0; row < run.count; row++) {
      const last = Math.min(run.gpu[row] + run.models[run.model[row]][1], run.gpus);
      for (let gpu = run.gpu[row]; gpu < last; gpu++) visit(gpu, row);
    }
  };
  each((gpu) => counts[gpu]++);
  const lanes = Array.from({ length: run.gpus }, (_, gpu) => ({ rows: new Uint32Array(counts[gpu]), used: 0 }));
  each((gpu, row) => { const lane = lanes[gpu]; lane.rows[lane.used++] = row; });
  return lanes.map(({ rows }) => laneOf(run, rows));
}

function laneOf(run, rows) {
  const count = rows.length;
  const reach = new Float64Array(count);
  const slot = new Uint8Array(count);
  const free = [];
  let latest = -Infinity;
  for (let at = 0; at < count; at++) {
    const row = rows[at];
    // Executions of a batch overlap: each takes the first strip of the lane that is free.
    let strip = free.findIndex((until) => until <= run.begin[row] + 1e-9);
    if (strip < 0) strip = free.length < 64 ? free.push(0) - 1 : 63;
    free[strip] = run.end[row];
    slot[at] = strip;
    latest = Math.max(latest, run.end[row]);
    reach[at] = latest;
  }
  return { rows, reach, slot, slots: Math.max(1, free.length), levels: levelsOf(run, rows) };
}

/** Level k has 2^(k+1) bars in a node: from when to when, how much of it at work and loading, mostly for which model. */
function levelsOf(run, rows) {
  const levels = [];
  let below = null;
  for (let size = Math.ceil(rows.length / 2); size >= 1 && rows.length > 1; size = Math.ceil(size / 2)) {
    const level = { begin: new Float64Array(size), end: new Float64Array(size), busy: new Float32Array(size),
      load: new Float32Array(size), most: new Float32Array(size), model: new Uint16Array(size) };
    const total = below ? below.begin.length : rows.length;
    for (let node = 0; node < size; node++) {
      level.begin[node] = Infinity;
      for (let part = node * 2; part < Math.min(node * 2 + 2, total); part++) {
        const row = rows[part];
        const begin = below ? below.begin[part] : run.begin[row];
        const end = below ? below.end[part] : run.end[row];
        const load = below ? below.load[part] : run.start[row] - run.begin[row];
        const busy = below ? below.busy[part] : run.end[row] - run.begin[row];
        const most = below ? below.most[part] : busy;
        const model = below ? below.model[part] : run.model[row];
        level.begin[node] = Math.min(level.begin[node], begin);
        level.end[node] = Math.max(level.end[node], end);
        level.load[node] += load;
        level.busy[node] += busy;
        if (model === level.model[node] && level.most[node] > 0) {
          level.most[node] += most;
        } else if (most > level.most[node]) {
          level.most[node] = most;
          level.model[node] = model;
        }
      }
    }
    levels.push(level);
    below = level;
    if (size === 1) break;
  }
  return levels;
}

/** The first place in a sorted range at which `passes` holds. */
function firstWhere(count, passes) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (passes(middle)) high = middle; else low = middle + 1;
  }
  return low;
}

/** The places of a lane's bars that go on between two moments: from the first to before the last. */
function visible(run, lane, from, to) {
  const first = firstWhere(lane.rows.length, (at) => lane.reach[at] > from);
  const last = firstWhere(lane.rows.length, (at) => run.begin[lane.rows[at]] >= to);
  return [first, last];
}

/** How a bar's wait was spent, by what its GPUs did: the rule is that of `gswarm explain`. */
function waitOf(run, lanes, row) {
  const [start, ready] = [run.start[row], run.start[row] - run.wait[row]];
  const parts = { own: 0, executing: 0, loading: 0, idle: 0, before: -1 };
  if (run.task[row] < 0 || run.wait[row] <= 0) return parts;
  const edges = [];
  const add = (from, to, kind) => {
    if (Math.min(to, start) > Math.max(from, ready)) {
      edges.push([Math.max(from, ready), 1, kind], [Math.min(to, start), -1, kind]);
    }
  };
  const model = run.model[row];
  for (let gpu = run.gpu[row]; gpu < Math.min(run.gpu[row] + run.models[model][1], run.gpus); gpu++) {
    const [first, last] = visible(run, lanes[gpu], ready, start);
    for (let at = first; at < last; at++) {
      const other = lanes[gpu].rows[at];
      const mine = run.model[other] === model && (other === row || run.start[other] === start || run.task[other] < 0);
      add(run.begin[other], run.start[other], mine ? 0 : 2);
      if (other === row) continue;
      add(run.start[other], run.end[other], 1);
      if (run.task[other] >= 0 && run.end[other] <= start && run.end[other] > ready &&
        (parts.before < 0 || run.end[other] > run.end[parts.before])) parts.before = other;
    }
  }
  edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = [0, 0, 0];
  let at = ready;
  const spend = (until) => {
    const kind = open.findIndex((count) => count > 0);
    parts[["own", "executing", "loading"][kind] ?? "idle"] += until - at;
    at = until;
  };
  for (const [time, step, kind] of edges) {
    spend(time);
    open[kind] += step;
  }
  spend(start);
  return parts;
}
