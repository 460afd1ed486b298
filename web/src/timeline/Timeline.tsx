// What ran where and when: the live chart, its buttons, and the same as a table.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Live } from "../state/live";
import { hasEnded, wasCutOff } from "../state/live";
import { colours } from "../parts/colours";
import { clock, count, elapsed } from "../parts/format";
import { BarTable } from "./BarTable";
import { type Anything, Chart } from "./chart";
import { layoutOf } from "./layout";
import { Legend } from "./Legend";
import { lines } from "./words";
import { lately } from "./window";

interface Mark {
  text: string[];
  x: number;
  y: number;
  byKey: boolean;
}

const SPANS = [[30, "30 s"], [120, "2 min"], [600, "10 min"]] as const;

export function Timeline({ live, chosen, open }: { live: Live; chosen: string | null; open: (request: string) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const chart = useRef<Chart | null>(null);
  const [mark, setMark] = useState<Mark | null>(null);
  const [follows, setFollows] = useState(true);
  const [sought, setSought] = useState("");
  const overview = live.overview;
  const { history } = live;
  const ended = hasEnded(overview);
  const gpuKey = overview?.gpus.map((gpu) => `${gpu.gpu}/${gpu.server}`).join();
  const layout = useMemo(() => layoutOf(overview?.gpus ?? [], Math.max(320, Math.min(640, window.innerHeight * 0.62))), [gpuKey]);
  const startedAt = overview?.started_at ?? null;
  // Clock times where the run goes with the clock; where time is emulated, or long gone, seconds since the beginning.
  const real = startedAt !== null && overview?.speed === 1 && !ended && overview !== null && Math.abs(startedAt + overview.now - Date.now() / 1000) < 5;
  const shown = useRef({ layout, sought, chosen, real, startedAt });
  shown.current = { layout, sought, chosen, real, startedAt };

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const content = () => {
      const now = live.overview;
      if (!now) return null;
      const { layout, sought, chosen, real, startedAt } = shown.current;
      const label = (time: number, step: number): string => (real && startedAt !== null ? clock(startedAt + time, step) : elapsed(time, step));
      return {
        layout, label, origin: real ? localSeconds(startedAt ?? 0) : 0, lanes: live.history.lanes, ongoing: live.history.ongoing, now: hasEnded(now) ? null : live.now(), cutOff: wasCutOff(now) ? now.now : null,
        colour: (model: string) => colours.of(model), chosen: sought || chosen,
        lost: new Set(now.gpus.filter((gpu) => gpu.state === "lost").map((gpu) => gpu.gpu)),
      };
    };
    const limits = () => ({ first: live.history.bars[0] ? Math.min(live.history.bars[0].start, live.now()) : 0, last: live.now() });
    const made = new Chart(element, content, limits, {
      mark: (bar, x, y, byKey) => setMark(bar && { text: textOf(bar), x, y, byKey }),
      open,
      moved: (window) => setFollows(window.follow),
    });
    const textOf = (bar: Anything): string[] => lines(bar, live.now(), shown.current.real ? shown.current.startedAt : null, wasCutOff(live.overview));
    made.window = lately(120, live.now());
    chart.current = made;
    if (hasEnded(live.overview)) made.all();
    return () => made.end();
  }, []);

  // Once a run has ended there is no present to go with; all of it is of interest.
  const before = useRef(ended);
  useEffect(() => {
    if (ended && !before.current) chart.current?.all();
    before.current = ended;
  }, [ended]);
  useEffect(() => chart.current?.ask());
  useSmoothly(chart, live, follows && !ended);

  const found = useMemo(() => (sought ? history.bars.filter((bar) => bar.request === sought).length : 0), [sought, history.version]);
  return (
    <section id="timeline" aria-labelledby="timeline-title">
      <div class="head">
        <h2 id="timeline-title">Timeline</h2>
        <div class="tools" role="group" aria-label="What the timeline shows">
          <button type="button" onClick={() => chart.current?.zoom(0.6)} aria-label="Zoom in">+</button>
          <button type="button" onClick={() => chart.current?.zoom(1 / 0.6)} aria-label="Zoom out">−</button>
          {!ended && SPANS.map(([seconds, name]) => (
            <button type="button" key={name} onClick={() => chart.current?.follow(seconds)}>{name}</button>
          ))}
          <button type="button" onClick={() => chart.current?.all()}>All</button>
          {!ended && (
            <button type="button" aria-pressed={follows} onClick={() => (follows ? chart.current?.pan(0) : chart.current?.follow())}>Follow now</button>
          )}
          <label class="seek">Request <input type="search" value={sought} placeholder="find by id" autocomplete="off" spellcheck={false}
            onInput={(event) => setSought(event.currentTarget.value.trim())} /></label>
          {sought && <span class="quiet" role="status">{found ? `${count(found)} bars` : "no bars found"}</span>}
        </div>
      </div>
      <div class="stage">
        <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="timeline" aria-describedby="timeline-keys"
          aria-label={`What each of ${overview?.gpus.length ?? 0} GPUs did over time`}
          data-bars={history.bars.length} data-ongoing={history.ongoing.length} data-real={real} />
        {mark && <Tip mark={mark} canvas={canvas.current} />}
      </div>
      <p class="unseen" aria-live="polite">{mark?.byKey ? mark.text.join(". ") : ""}</p>
      <Legend overview={overview} history={history} />
      <p id="timeline-keys" class="quiet keys">
        Drag to move, Ctrl and wheel to zoom, click for the request. Keys: ← → move, + − zoom, 0 all, F follow, N P next and previous bar, ↑ ↓ other GPU, Enter request.
        {history.forgotten > 0 && ` ${count(history.forgotten)} older entries are no longer kept.`}
      </p>
      <BarTable history={history} now={live.now()} cutOff={wasCutOff(overview)} open={open} />
    </section>
  );
}

/** A moment as seconds of the local clock, since some midnight: round labels are round to whoever reads them. */
const localSeconds = (unix: number): number => (unix - new Date(unix * 1000).getTimezoneOffset() * 60) % 86_400;

function Tip({ mark, canvas }: { mark: Mark; canvas: HTMLCanvasElement | null }) {
  const width = canvas?.clientWidth ?? 800;
  const right = mark.x > width / 2;
  const style = { top: `${mark.y + 14}px`, ...(right ? { right: `${Math.max(width - mark.x, 4)}px` } : { left: `${mark.x + 12}px` }) };
  return <div class="tip" style={style} aria-hidden="true">{mark.text.map((line, at) => <div key={at} class={at ? "" : "first"}>{line}</div>)}</div>;
}

/** Draws as often as something moves by a pixel, but not for people who want less motion: they get each answer. */
function useSmoothly(chart: { current: Chart | null }, live: Live, follows: boolean): void {
  useEffect(() => {
    if (!follows || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    let timer: ReturnType<typeof setTimeout>;
    const again = (): void => {
      const now = chart.current;
      const width = now ? now.window.to - now.window.from : 60;
      if (now && !document.hidden && live.link.state === "up") now.ask();
      timer = setTimeout(again, Math.min(Math.max((width / 1000) * 1000, 40), 500));
    };
    again();
    return () => clearTimeout(timer);
  }, [follows]);
}

