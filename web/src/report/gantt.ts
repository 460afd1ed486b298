// The Gantt chart of a report: the dashboard's chart over a run that is over.

import { Colours } from "../parts/colours";
import { elapsed } from "../parts/format";
import { type Anything, Chart } from "../timeline/chart";
import { type Scene, outlined, xOf } from "../timeline/draw";
import { layoutOf } from "../timeline/layout";
import type { Run } from "./columns";
import { RowBar, RunLanes, gpusOf, waitOf } from "./lanes";

const at = (values: ArrayLike<number>, place: number): number => values[place] as number;
const seconds = (value: number): string => `${value.toLocaleString("en", { maximumFractionDigits: 3 })} s`;
const part = <T extends Element>(element: Element, name: string): T => element.querySelector(name) as T;

/** A request, and one of its nodes or -1. */
type Match = [request: number, node: number];

export class ReportGantt {
  readonly chart: Chart;
  private readonly lanes: RunLanes;
  private readonly colours = new Colours();
  private readonly tip: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly input: HTMLInputElement;
  /** Rows of the request that was asked for. */
  private found: number[] = [];
  private search: { text: string; matches: Match[]; turn: number } | null = null;

  constructor(private readonly element: HTMLElement, private readonly run: Run) {
    this.lanes = new RunLanes(run);
    this.canvas = part(element, "canvas");
    this.tip = part(element, ".tip");
    this.input = part(element, "input");
    for (const [name] of run.models) this.colours.of(name);
    const servers = Array.from({ length: run.gpus }, (_, gpu) => ({ gpu, server: run.perServer ? Math.floor(gpu / run.perServer) : 0 }));
    const content = {
      layout: layoutOf(servers, 680, 24, 62, 26, 3), lanes: this.lanes, ongoing: [], now: null, cutOff: null, chosen: null, origin: 0,
      lost: new Set<number>(), colour: (model: string) => this.colours.of(model), label: elapsed,
      over: (c: CanvasRenderingContext2D, scene: Scene) => this.over(c, scene),
    };
    const limits = { first: 0, last: run.last || 1, least: Math.max(run.tick * 10, run.last * 1e-7) };
    const told = { mark: (bar: Anything | null, x: number, y: number) => this.mark(bar, x, y), open: () => undefined, moved: () => undefined };
    this.chart = new Chart(this.canvas, () => content, () => limits, told, { wheelZooms: true });
    this.chart.all();
    this.legend();
    this.listen();
  }

  private legend(): void {
    const used = new Set(this.run.model);
    const entry = (background: string, text: string): HTMLElement => {
      const [entry, patch] = [document.createElement("span"), document.createElement("i")];
      patch.style.background = background;
      entry.append(patch, text);
      return entry;
    };
    const models = this.run.models.flatMap(([name, gpus], number) =>
      used.has(number) ? [entry(this.colours.of(name), `${name}${gpus > 1 ? ` (${gpus} GPUs)` : ""}`)] : []);
    const hatched = entry("repeating-linear-gradient(135deg, #888 0 2px, transparent 2px 5px)", "hatched: model load");
    part(this.element, ".legend").append(...models, hatched);
  }

  private listen(): void {
    const { chart } = this;
    const acts: Record<string, () => void> = {
      in: () => chart.zoom(0.6), out: () => chart.zoom(1 / 0.6), left: () => chart.pan(-0.3), right: () => chart.pan(0.3),
      all: () => chart.all(), next: () => this.find(),
    };
    for (const button of this.element.querySelectorAll<HTMLElement>("[data-do]")) button.addEventListener("click", () => acts[button.dataset["do"] ?? ""]?.());
    this.input.addEventListener("keydown", (event) => event.key === "Enter" && this.find());
    this.canvas.addEventListener("keydown", (event) => event.key === "Escape" && this.show([], ""));
  }

  /** The bound, and an outline around all that was found. */
  private over(c: CanvasRenderingContext2D, scene: Scene): void {
    const { run } = this;
    const { layout, theme, width } = scene;
    for (const row of this.found) {
      const [x, end] = [xOf(scene, at(run.begin, row)), xOf(scene, at(run.end, row))];
      const [first, last] = [layout.rows[at(run.gpu, row)], layout.rows[at(run.gpu, row) + gpusOf(run, row) - 1]];
      if (end >= layout.gutter && x <= width && first && last) outlined(c, scene, x, first.y, Math.max(end - x, 2), last.y + last.height - first.y - 1);
    }
    if (!run.bound) return;
    const x = xOf(scene, run.first + run.bound);
    [c.strokeStyle, c.lineWidth] = [theme.ink, 1];
    c.setLineDash([6, 4]);
    c.beginPath();
    c.moveTo(x, layout.head);
    c.lineTo(x, layout.height);
    c.stroke();
    c.setLineDash([]);
    const text = "no schedule is shorter";
    const room = c.measureText(text).width + 8;
    const left = x + room + 4 < width ? x + 3 : x - room - 3;
    [c.fillStyle, c.globalAlpha] = [theme.paper, 0.85];
    c.fillRect(left, layout.head + 2, room, 15);
    [c.fillStyle, c.globalAlpha, c.textAlign] = [theme.ink, 1, "left"];
    c.fillText(text, left + 4, layout.head + 10);
  }

  private mark(bar: Anything | null, x: number, y: number): void {
    const { tip, canvas } = this;
    tip.hidden = !(bar instanceof RowBar);
    if (!(bar instanceof RowBar)) return;
    tip.textContent = this.told(bar.row);
    const below = y + 18 + tip.offsetHeight < canvas.clientHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 14, canvas.clientWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? y + 18 : Math.max(2, y - tip.offsetHeight - 10)}px`;
  }

  /** What a bar is, and why it began when it did. */
  told(row: number): string {
    const { run } = this;
    const bar = new RowBar(run, row, "run");
    const { gpus, model } = bar;
    const lines = [bar.name, `${model} on ${gpus.length > 1 ? `GPUs ${gpus[0]} to ${gpus.at(-1)}` : `GPU ${gpus[0]}`}`];
    if (at(run.task, row) < 0) {
      return [...lines, `loaded from ${seconds(at(run.begin, row))} to ${seconds(at(run.start, row))}`].join("\n");
    }
    lines.push(`started at ${seconds(bar.start)}, took ${seconds(bar.end - bar.start)}`);
    const wait = at(run.wait, row);
    if (wait > 0) {
      const spent = waitOf(this.lanes, row);
      const parts: [string, number][] = [["others executed on its GPUs", spent.executing], ["models were loaded for others", spent.loading],
        ["its own model was loaded", spent.own], ["its GPUs were idle", spent.idle]];
      const told = parts.filter(([, length]) => length > run.tick / 2).map(([what, length]) => `${seconds(length)} ${what}`);
      lines.push(`ready at ${seconds(bar.start - wait)}, waited ${seconds(wait)}: ${told.join(", ")}`);
      if (spent.before >= 0) lines.push(`last before it: ${new RowBar(run, spent.before, "run").name}`);
    } else {
      lines.push("did not wait");
    }
    if (at(run.batch, row) > 1) lines.push(`in a batch of ${at(run.batch, row)}`);
    const status = run.status.get(row);
    return [...lines, ...(status ? [`ended: ${status}`] : [])].join("\n");
  }

  private show(found: number[], text: string): void {
    this.found = found;
    part(this.element, ".found").textContent = text;
    this.chart.ask();
  }

  /** Finds the bars of a request, or of one node; once more goes to the next that matches. */
  private find(): void {
    const { run } = this;
    const text = this.input.value.trim();
    if (!text) return this.show([], "");
    if (this.search?.text !== text) this.search = { text, matches: this.matching(text), turn: -1 };
    const { matches } = this.search;
    const turn = (this.search.turn = (this.search.turn + 1) % Math.max(matches.length, 1));
    const match = matches[turn];
    if (!match) return this.show([], "no such request");
    const [request, node] = match;
    const [first, last] = [at(run.firstTask, request), at(run.firstTask, request + 1)];
    const found: number[] = [];
    for (let row = 0; row < run.count; row++) {
      const task = at(run.task, row);
      if (task >= first && task < last && (node < 0 || task === first + node)) found.push(row);
    }
    this.show(found, `${run.name(request)}: ${found.length} bars${matches.length > 1 ? ` (${turn + 1} of ${matches.length})` : ""}`);
    if (found.length === 0) return;
    const [from, to] = [Math.min(...found.map((row) => at(run.begin, row))), Math.max(...found.map((row) => at(run.end, row)))];
    const margin = Math.max((to - from) * 0.15, run.tick * 10);
    this.chart.show({ from: from - margin, to: to + margin, follow: false });
  }

  /** Requests of this name, or whose names hold it; with the node, where one is named. */
  private matching(text: string): Match[] {
    const { run } = this;
    const matches: Match[] = [];
    for (let request = 0; request < run.requests.count && matches.length < 1000; request++) {
      const name = run.name(request);
      const nodes = run.workflows[at(run.workflow, request)]?.[1] ?? [];
      if (name === text) return [[request, -1]];
      const node = nodes.findIndex((id) => `${name}/${id}` === text);
      if (node >= 0) return [[request, node]];
      if (name.includes(text)) matches.push([request, -1]);
    }
    return matches;
  }

  /** How long a frame takes on the way from the whole run into its middle, in milliseconds. */
  measure(): number {
    const begun = performance.now();
    for (let frame = 0; frame < 40; frame++) {
      this.chart.zoom(0.75, this.run.last / 3);
      this.chart.draw();
    }
    const each = (performance.now() - begun) / 40;
    this.chart.all();
    return each;
  }
}
