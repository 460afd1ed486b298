
// The Gantt chart: a canvas on which only what is seen is drawn.

const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const GUTTER = 62;
const HEAD = 24;

/** The colour of a model: six that all can tell apart, then the same darker and lighter. */
function modelColour(number) {
  const base = PALETTE[number % PALETTE.length];
  const round = Math.floor(number / PALETTE.length);
  if (round === 0) return base;
  const target = round % 2 ? 0 : 255;
  const share = Math.min(0.3 + 0.12 * round, 0.7);
  const part = (at) => Math.round(parseInt(base.slice(at, at + 2), 16) * (1 - share) + target * share);
  return `rgb(${part(1)} ${part(3)} ${part(5)})`;
}

const seconds = (value, digits = 3) => `${value.toLocaleString("en", { maximumFractionDigits: digits })} s`;

class GanttChart {
  constructor(element, run) {
    this.element = element;
    this.run = run;
    this.lanes = lanesOf(run);
    this.canvas = element.querySelector("canvas");
    this.tip = element.querySelector(".tip");
    this.context = this.canvas.getContext("2d");
    this.colours = run.models.map((_, number) => modelColour(number));
    this.lane = Math.max(3, Math.min(24, Math.floor(640 / run.gpus)));
    this.canvas.style.height = `${HEAD + this.lane * run.gpus + 2}px`;
    this.span = Math.max(run.last - Math.min(run.first, 0), 1e-6);
    [this.from, this.to] = [0, run.last || 1];
    this.found = [];
    this.marked = -1;
    this.legend();
    this.listen();
    new ResizeObserver(() => this.ask()).observe(this.canvas);
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => this.draw());
    }
  }

  legend() {
    const legend = this.element.querySelector(".legend");
    const used = new Set(this.run.model);
    this.run.models.forEach(([name, gpus], number) => {
      if (!used.has(number)) return;
      const entry = document.createElement("span");
      const patch = document.createElement("i");
      patch.style.background = this.colours[number];
      entry.append(patch, `${name}${gpus > 1 ? ` (${gpus} GPUs)` : ""}`);
      legend.append(entry);
    });
    const entry = document.createElement("span");
    const patch = document.createElement("i");
    patch.style.background = "repeating-linear-gradient(135deg, #888 0 2px, transparent 2px 5px)";
    entry.append(patch, "hatched: the model is loaded");
    legend.append(entry);
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  x(time) { return GUTTER + (time - this.from) / (this.to - this.from) * (this.width - GUTTER); }
  time(x) { return this.from + (x - GUTTER) / (this.width - GUTTER) * (this.to - this.from); }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const box = this.canvas.getBoundingClientRect();
    [this.width, this.height] = [box.width || 800, box.height || 300];
    const [wide, high] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) [this.canvas.width, this.canvas.height] = [wide, high];
    const style = getComputedStyle(this.element);
    [this.ink, this.quiet, this.line] = ["--ink", "--quiet", "--line"].map((name) => style.getPropertyValue(name));
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    this.hatch ??= this.hatching();
    this.axis(c);
    c.save();
    c.beginPath();
    c.rect(GUTTER, HEAD, this.width - GUTTER, this.height - HEAD);
    c.clip();
    this.drawn = 0;
    this.lanes.forEach((lane, gpu) => this.drawLane(c, lane, HEAD + gpu * this.lane));
    this.marks(c);
    c.restore();
  }

  hatching() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const c = tile.getContext("2d");
    c.strokeStyle = "rgb(255 255 255 / 85%)";
    c.lineWidth = 2;
    c.beginPath();
    for (const at of [-6, 0, 6]) { c.moveTo(at, 6); c.lineTo(at + 6, 0); }
    c.stroke();
    return this.context.createPattern(tile, "repeat");
  }

  axis(c) {
    const { gpus, perServer } = this.run;
    c.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    c.textBaseline = "middle";
    const rough = (this.to - this.from) / Math.max(2, (this.width - GUTTER) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
    c.textAlign = "center";
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      c.strokeStyle = this.line;
      c.beginPath(); c.moveTo(x, HEAD - 5); c.lineTo(x, this.height); c.stroke();
      c.fillStyle = this.quiet;
      c.fillText(seconds(at, digits), Math.min(Math.max(x, GUTTER + 20), this.width - 26), 10);
    }
    c.textAlign = "right";
    const every = Math.ceil(12 / this.lane);
    for (let gpu = 0; gpu < gpus; gpu++) {
      const y = HEAD + gpu * this.lane;
      if (perServer && gpu % perServer === 0 && gpu > 0) {
        c.strokeStyle = this.quiet;
        c.beginPath(); c.moveTo(GUTTER - 6, y - 0.5); c.lineTo(this.width, y - 0.5); c.stroke();
      }
      c.fillStyle = this.quiet;
      if (gpu % every === 0) c.fillText(`GPU ${gpu}`, GUTTER - 8, y + Math.max(this.lane, 10) / 2);
    }
  }

  drawLane(c, lane, y) {
    const { run } = this;
    const [first, last] = visible(run, lane, this.from, this.to);
    const room = this.width - GUTTER;
    let level = -1;
    while ((last - first) / 2 ** (level + 1) > room && level + 1 < lane.levels.length) level++;
    if (level < 0) {
      const strip = (this.lane - 1) / lane.slots;
      for (let at = first; at < last; at++) this.bar(c, lane.rows[at], y + lane.slot[at] * strip, strip);
      return;
    }
    const nodes = lane.levels[level];
    const [from, to] = [first >> (level + 1), (last - 1) >> (level + 1)];
    const height = this.lane - 1;
    for (let node = from; node <= to; node++) {
      // Whole pixels: what is merged has no edges to show, and is filled faster.
      const x = Math.floor(this.x(nodes.begin[node]));
      const width = Math.max(Math.ceil(this.x(nodes.end[node])) - x, 1);
      const whole = Math.max(nodes.end[node] - nodes.begin[node], 1e-12);
      const share = Math.min(1, nodes.busy[node] / whole);
      c.globalAlpha = share > 0.95 ? 1 : 0.3 + 0.7 * share;
      c.fillStyle = this.colours[nodes.model[node]];
      c.fillRect(x, y, width, height);
      if (nodes.load[node] > 0) {
        // The part of the height that was loading, so that switches are seen from afar.
        c.globalAlpha = 1;
        const part = Math.max(1.5, height * Math.min(1, nodes.load[node] / whole));
        c.fillStyle = this.ink;
        c.fillRect(x, y + height - part, width, part);
      }
      this.drawn++;
    }
    c.globalAlpha = 1;
  }

  bar(c, row, y, height) {
    const { run } = this;
    const [begin, start, end] = [this.x(run.begin[row]), this.x(run.start[row]), this.x(run.end[row])];
    c.fillStyle = this.colours[run.model[row]];
    if (start > begin) {
      c.globalAlpha = 0.75;
      c.fillRect(begin, y, Math.max(start - begin, 0.5), height);
      c.globalAlpha = 1;
      c.fillStyle = this.hatch;
      c.fillRect(begin, y, start - begin, height);
      c.fillStyle = this.colours[run.model[row]];
    }
    const gap = end - start > 4 ? 0.75 : 0;
    c.fillRect(start, y, Math.max(end - start - gap, 0.5), height);
    if (run.status.has(row)) {
      c.strokeStyle = this.ink;
      c.lineWidth = 1.5;
      c.beginPath(); c.moveTo(start, y); c.lineTo(end, y + height); c.moveTo(start, y + height); c.lineTo(end, y); c.stroke();
      c.lineWidth = 1;
    }
    this.drawn++;
  }

  marks(c) {
    const { run } = this;
    if (run.bound) {
      const x = this.x(run.first + run.bound);
      c.strokeStyle = c.fillStyle = this.ink;
      c.setLineDash([6, 4]);
      c.beginPath(); c.moveTo(x, HEAD); c.lineTo(x, this.height); c.stroke();
      c.setLineDash([]);
      this.boundLabel(c, x);
    }
    c.lineWidth = 2;
    c.strokeStyle = this.ink;
    for (const row of this.found) this.outline(c, row);
    if (this.marked >= 0) this.outline(c, this.marked);
    c.lineWidth = 1;
  }

  boundLabel(c, x) {
    const text = "no schedule is shorter";
    const width = c.measureText(text).width + 8;
    const left = x + width + 4 < this.width ? x + 3 : x - width - 3;
    c.fillStyle = getComputedStyle(this.element).getPropertyValue("--paper");
    c.globalAlpha = 0.85;
    c.fillRect(left, HEAD + 2, width, 15);
    c.globalAlpha = 1;
    c.fillStyle = this.ink;
    c.textAlign = "left";
    c.fillText(text, left + 4, HEAD + 10);
  }

  outline(c, row) {
    const { run } = this;
    const [begin, end] = [this.x(run.begin[row]), this.x(run.end[row])];
    if (end < GUTTER || begin > this.width) return;
    const gpus = Math.min(run.models[run.model[row]][1], run.gpus - run.gpu[row]);
    c.strokeRect(begin, HEAD + run.gpu[row] * this.lane, Math.max(end - begin, 2), gpus * this.lane - 1);
  }

  /** Zooms about a moment: a factor below 1 comes nearer. */
  zoom(factor, about = (this.from + this.to) / 2) {
    const least = Math.max(this.run.tick * 10, this.span * 1e-7);
    const width = Math.min(Math.max((this.to - this.from) * factor, least), this.span * 1.1);
    const share = (about - this.from) / (this.to - this.from);
    this.from = about - width * share;
    this.to = this.from + width;
    this.pan(0);
  }

  /** Moves by a share of what is seen, and stays by the run. */
  pan(share) {
    const width = this.to - this.from;
    const margin = width * 0.05;
    this.from = Math.min(Math.max(this.from + share * width, -margin), Math.max(this.run.last + margin - width, -margin));
    this.to = this.from + width;
    this.ask();
  }

  all() { [this.from, this.to] = [0, this.run.last || 1]; this.ask(); }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / 1000);
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 400))), this.time(event.offsetX));
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = event.offsetX; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (held !== null) {
        this.pan((held - event.offsetX) / (this.width - GUTTER));
        held = event.offsetX;
      }
      this.mark(this.barAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
    });
    canvas.addEventListener("pointerleave", () => this.mark(-1));
    canvas.addEventListener("keydown", (event) => {
      const keys = { ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), "+": () => this.zoom(0.7),
        "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7), 0: () => this.all(), n: () => this.next(1),
        p: () => this.next(-1), Escape: () => { this.found = []; this.mark(-1); } };
      const act = keys[event.key];
      if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
    });
    const acts = { in: () => this.zoom(0.6), out: () => this.zoom(1 / 0.6), left: () => this.pan(-0.3),
      right: () => this.pan(0.3), all: () => this.all(), next: () => this.search() };
    for (const button of this.element.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => acts[button.dataset.do]());
    }
    this.input = this.element.querySelector("input");
    this.input.addEventListener("keydown", (event) => { if (event.key === "Enter") this.search(); });
  }

  barAt(x, y) {
    const gpu = Math.floor((y - HEAD) / this.lane);
    const lane = this.lanes[gpu];
    if (!lane || x < GUTTER) return -1;
    const { run } = this;
    const [from, to] = [this.time(x - 1), this.time(x + 1)];
    const [first, last] = visible(run, lane, from, to);
    const strip = Math.floor((y - HEAD - gpu * this.lane) / (this.lane / lane.slots));
    let best = -1;
    for (let at = last - 1; at >= Math.max(first, last - 200); at--) {
      if (run.end[lane.rows[at]] <= from) continue;
      if (lane.slot[at] === strip) return lane.rows[at];
      best = lane.rows[at];
    }
    return best;
  }

  mark(row, x, y) {
    if (row === this.marked && row < 0) return;
    this.marked = row;
    this.tip.hidden = row < 0;
    if (row >= 0) {
      this.tip.textContent = this.told(row);
      const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 8);
      const below = y + 18 + this.tip.offsetHeight < this.height;
      this.tip.style.left = `${Math.max(4, left)}px`;
      this.tip.style.top = `${below ? y + 18 : Math.max(2, y - this.tip.offsetHeight - 10)}px`;
    }
    this.ask();
  }

  /** What a bar is, and why it began when it did. */
  told(row) {
    const { run } = this;
    const [name, gpus] = run.models[run.model[row]];
    const [first, last] = [run.gpu[row], run.gpu[row] + gpus - 1];
    const where = gpus > 1 ? `GPUs ${first} to ${last}` : `GPU ${first}`;
    const lines = [barName(run, row), `${name} on ${where}`];
    if (run.task[row] < 0) {
      lines.push(`loaded from ${seconds(run.begin[row])} to ${seconds(run.start[row])}`);
      return lines.join("\n");
    }
    lines.push(`started at ${seconds(run.start[row])}, took ${seconds(run.end[row] - run.start[row])}`);
    const wait = waitOf(run, this.lanes, row);
    if (run.wait[row] > 0) {
      const parts = [["others executed on its GPUs", wait.executing], ["models were loaded for others", wait.loading],
        ["its own model was loaded", wait.own], ["its GPUs were idle", wait.idle]];
      const told = parts.filter(([, length]) => length > run.tick / 2).map(([what, length]) => `${seconds(length)} ${what}`);
      lines.push(`ready at ${seconds(run.start[row] - run.wait[row])}, waited ${seconds(run.wait[row])}: ${told.join(", ")}`);
      if (wait.before >= 0) lines.push(`last before it: ${barName(run, wait.before)}`);
    } else {
      lines.push("did not wait");
    }
    if (run.batch[row] > 1) lines.push(`in a batch of ${run.batch[row]}`);
    if (run.status.has(row)) lines.push(`ended: ${run.status.get(row)}`);
    return lines.join("\n");
  }

  /** Finds the bars of a request, or of one node; once more goes to the next that matches. */
  search() {
    const { run } = this;
    const text = this.input.value.trim();
    const said = this.element.querySelector(".found");
    if (!text) { this.found = []; said.textContent = ""; this.ask(); return; }
    if (text !== this.asking) [this.asking, this.matches, this.turn] = [text, this.requests(text), -1];
    if (this.matches.length === 0) { said.textContent = "no such request"; this.found = []; this.ask(); return; }
    this.turn = (this.turn + 1) % this.matches.length;
    const [request, node] = this.matches[this.turn];
    this.found = [];
    for (let row = 0; row < run.count; row++) {
      const offset = run.task[row] - run.firstTask[request];
      if (offset >= 0 && run.task[row] < run.firstTask[request + 1] && (node < 0 || offset === node)) this.found.push(row);
    }
    said.textContent = `${run.name(request)}: ${this.found.length} bars${this.matches.length > 1 ? ` (${this.turn + 1} of ${this.matches.length})` : ""}`;
    if (this.found.length === 0) return this.ask();
    const from = Math.min(...this.found.map((row) => run.begin[row]));
    const to = Math.max(...this.found.map((row) => run.end[row]));
    const margin = Math.max((to - from) * 0.15, run.tick * 10);
    [this.from, this.to] = [from - margin, to + margin];
    this.ask();
  }

  /** Requests of this name, or that begin with it; with the node, where one is named. */
  requests(text) {
    const { run } = this;
    const matches = [];
    for (let request = 0; request < run.requests.count && matches.length < 1000; request++) {
      const name = run.name(request);
      const nodes = run.workflows[run.workflow[request]][1];
      if (name === text) return [[request, -1]];
      const node = nodes.findIndex((id) => `${name}/${id}` === text);
      if (node >= 0) return [[request, node]];
      if (name.includes(text)) matches.push([request, -1]);
    }
    return matches;
  }

  /** The next or the last bar, for those who use keys: marked, told, and brought into view. */
  next(step) {
    const { run } = this;
    this.cursor = Math.min(Math.max((this.cursor ?? (step > 0 ? -1 : run.count)) + step, 0), run.count - 1);
    const row = this.cursor;
    if (run.begin[row] < this.from || run.end[row] > this.to) {
      const width = this.to - this.from;
      this.from = run.begin[row] - width * 0.1;
      this.to = this.from + width;
      this.pan(0);
    }
    this.mark(row, Math.max(GUTTER, this.x(run.begin[row])), HEAD + (run.gpu[row] + 1) * this.lane);
  }

  /** How long a frame takes on the way from the whole run into its middle, in milliseconds. */
  measure() {
    const begun = performance.now();
    for (let frame = 0; frame < 40; frame++) { this.zoom(0.75, this.run.last / 3); this.draw(); }
    const each = (performance.now() - begun) / 40;
    this.all();
    return each;
  }
}

/** Makes the chart of one element, and says on it what was made, for whoever checks. */
async function makeGantt(element) {
  const begun = performance.now();
  const run = await readRun(JSON.parse(element.querySelector("script").textContent));
  const chart = new GanttChart(element, run);
  chart.draw();
  let busy = 0;
  for (let row = 0; row < run.count; row++) busy += run.end[row] - run.start[row];
  Object.assign(element.dataset, { bars: run.count, busy: busy.toFixed(6), drawn: chart.drawn,
    ms: (performance.now() - begun).toFixed(0) });
  if (location.hash === "#measure") element.dataset.frame = chart.measure().toFixed(2);
  if (run.count > 0) element.dataset.first = chart.told(0);
  element.dataset.ready = "yes";
  return chart;
}

(async () => {
  for (const element of document.querySelectorAll(".gantt")) {
    try {
      await makeGantt(element);
    } catch (error) {
      element.querySelector(".found").textContent = `the chart cannot be drawn: ${error.message}`;
      console.error(error);
    }
    // Between two charts the page stays usable.
    await new Promise((done) => setTimeout(done, 0));
  }
})();
