// The chart that goes with time: holds what is seen, and turns pointer and keys into it.

import type { OngoingBar } from "../api/types";
import type { Drawn } from "./lanes";
import { type Scene, type Theme, draw, timeAt } from "./draw";
import { barAt, step } from "./find";
import { type Limits, type Window, all, followed, lately, panned, showing, zoomed } from "./window";

export type Anything = Drawn | OngoingBar;

/** What the chart shows at a moment: everything but the window. */
export type Content = Omit<Scene, "width" | "window" | "theme" | "marked">;

export interface Told {
  /** A bar under the pointer, or chosen by keys, and where its text goes. */
  mark(bar: Anything | null, x: number, y: number, byKey: boolean): void;
  open(request: string): void;
  moved(window: Window): void;
}

const themeOf = (element: Element): Theme => {
  const style = getComputedStyle(element);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ink: value("--ink"), quiet: value("--quiet"), line: value("--line"), paper: value("--raised"), stripe: value("--lane"), bad: value("--bad"),
  };
};

export interface Options {
  /** Only drawn: it answers neither pointer nor keys. */
  still?: boolean;
  /** The wheel zooms without Ctrl. */
  wheelZooms?: boolean;
}

export class Chart {
  window: Window = { from: 0, to: 60, follow: true };
  private marked: Anything | null = null;
  private theme: Theme;
  private asked = false;
  private width = 800;
  private readonly off = new AbortController();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly content: () => Content | null,
    private readonly limits: () => Limits,
    private readonly told: Told,
    private readonly options: Options = {},
  ) {
    this.theme = themeOf(canvas);
    const { signal } = this.off;
    const repaint = (): void => {
      this.theme = themeOf(canvas);
      this.draw();
    };
    // Printing does not wait for the next frame.
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", repaint, { signal });
    const resized = new ResizeObserver(() => this.ask());
    resized.observe(canvas);
    signal.addEventListener("abort", () => resized.disconnect());
    if (options.still) return;
    this.pointer(signal);
    canvas.addEventListener("keydown", (event) => this.key(event), { signal });
    canvas.addEventListener("blur", () => this.mark(null, 0, 0, true), { signal });
  }

  end(): void {
    this.off.abort();
  }

  /** Draws in the next frame. */
  ask(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  private scene(): Scene | null {
    const content = this.content();
    return content && { ...content, width: this.width, window: this.window, theme: this.theme, marked: this.marked };
  }

  draw(): void {
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    this.width = box.width || 800;
    this.window = followed(this.window, this.limits().last);
    const scene = this.scene();
    if (!scene || box.width === 0) return;
    this.canvas.style.height = `${scene.layout.height}px`;
    const [wide, high] = [Math.round(this.width * ratio), Math.round(scene.layout.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) [this.canvas.width, this.canvas.height] = [wide, high];
    const c = this.canvas.getContext("2d");
    if (!c) return;
    const before = performance.now();
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const drawn = draw(c, scene);
    // For measurements, and for whoever wants to know what the picture holds.
    const { from, to } = this.window;
    const rows = scene.layout.rows.map((row) => `${row.gpu}:${row.y}:${row.height}`).join();
    Object.assign(this.canvas.dataset, { drawn, from, to, rows, gutter: scene.layout.gutter, frame: (performance.now() - before).toFixed(1) });
  }

  show(window: Window): void {
    this.window = window;
    this.told.moved(window);
    this.ask();
  }

  zoom(factor: number, about?: number): void {
    this.show(zoomed(this.window, factor, about ?? (this.window.from + this.window.to) / 2, this.limits()));
  }

  pan(share: number): void {
    this.show(panned(this.window, share, this.limits()));
  }

  all(): void {
    this.show(all(this.limits()));
  }

  follow(seconds?: number): void {
    const width = Math.min(this.window.to - this.window.from, 600);
    this.show(lately(seconds ?? width, this.limits().last));
  }

  mark(bar: Anything | null, x: number, y: number, byKey: boolean): void {
    if (bar === null && this.marked === null) return;
    this.marked = bar;
    this.told.mark(bar, x, y, byKey);
    this.ask();
  }

  private pointer(signal: AbortSignal): void {
    const { canvas } = this;
    let held: number | null = null;
    let travelled = 0;
    canvas.addEventListener("wheel", (event) => {
      // The wheel alone scrolls the page: the chart is too large to be a trap. With Ctrl, or across, it is the chart's.
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan(event.deltaX / 1000);
      } else if (this.options.wheelZooms || event.ctrlKey || event.metaKey || event.shiftKey) {
        event.preventDefault();
        const scene = this.scene();
        if (scene) this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), timeAt(scene, event.offsetX));
      }
    }, { passive: false, signal });
    canvas.addEventListener("pointerdown", (event) => {
      held = event.offsetX;
      travelled = 0;
      canvas.setPointerCapture(event.pointerId);
    }, { signal });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => (held = null), { signal });
    canvas.addEventListener("pointermove", (event) => {
      const scene = this.scene();
      if (!scene) return;
      if (held !== null && event.offsetX !== held) {
        travelled += Math.abs(event.offsetX - held);
        if (travelled > 4) this.pan((held - event.offsetX) / (this.width - scene.layout.gutter));
        held = event.offsetX;
      }
      this.mark(barAt(scene, event.offsetX, event.offsetY), event.offsetX, event.offsetY, false);
    }, { signal });
    canvas.addEventListener("pointerleave", () => this.mark(null, 0, 0, false), { signal });
    canvas.addEventListener("click", (event) => {
      const scene = this.scene();
      const bar = scene && travelled <= 4 ? barAt(scene, event.offsetX, event.offsetY) : null;
      if (bar?.request) this.told.open(bar.request);
    }, { signal });
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
      ArrowUp: () => this.go("up"), ArrowDown: () => this.go("down"),
      "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7),
      0: () => this.all(), f: () => this.follow(), n: () => this.go("next"), p: () => this.go("previous"),
      Enter: () => this.marked?.request && this.told.open(this.marked.request),
      Escape: () => this.mark(null, 0, 0, true),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** To another bar, by keys: the next or the one before on the same GPU, or that of another GPU at the same time. */
  private go(direction: "next" | "previous" | "up" | "down"): void {
    const scene = this.scene();
    const found = scene && step(scene, this.marked, direction);
    if (!scene || !found) return;
    const end = "end" in found.bar ? found.bar.end : (scene.now ?? found.bar.start);
    const shown = showing(this.window, found.bar.start, end);
    if (shown !== this.window) this.show(shown);
    const share = (Math.max(found.bar.start, shown.from) - shown.from) / (shown.to - shown.from);
    const x = scene.layout.gutter + share * (this.width - scene.layout.gutter);
    this.mark(found.bar, x, found.row.y + found.row.height, true);
  }
}
