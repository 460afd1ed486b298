// Each GPU: what it does, which models are on it, and how full it is.

import { useState } from "preact/hooks";
import type { GpuStatus, Overview } from "../api/types";
import { count, gigabytes, gpuNames, percent, span } from "../parts/format";
import { Pager } from "../parts/Pager";
import { ModelName } from "../parts/Swatch";
import { wasCutOff } from "../state/live";

/** What a GPU does; of a run that was interrupted, what it did then. */
export const doing = (gpu: GpuStatus, cutOff: boolean, over = false): string => {
  if (over && gpu.state !== "lost") return gpu.models.length ? "held at the end" : "empty at the end";
  if (cutOff && (gpu.state === "running" || gpu.state === "loading")) return `was ${gpu.state}${gpu.batch > 1 ? ` ×${gpu.batch}` : ""}`;
  const left = gpu.free_in > 0.05 ? `, ${span(gpu.free_in)} left` : gpu.overdue > 0.05 ? `, overdue ${span(gpu.overdue)}` : "";
  switch (gpu.state) {
    case "running": return `running${gpu.batch > 1 ? ` ×${gpu.batch}` : ""}${left}`;
    case "loading": return `loading${left}`;
    case "lost": return "lost";
    case "idle": return "idle";
  }
};

/** Tiles at a time: of more, a page is taller than anybody scrolls. */
const PAGE = 64;

/** `900 running, 3 lost`: what many GPUs do. */
export function tally(gpus: GpuStatus[], cutOff: boolean): string {
  const many = new Map<string, number>();
  for (const { state } of gpus) many.set(state, (many.get(state) ?? 0) + 1);
  const was = (state: string): string => (cutOff && (state === "running" || state === "loading") ? `were ${state}` : state);
  return [...many].sort((a, b) => b[1] - a[1]).map(([state, number]) => `${count(number)} ${was(state)}`).join(", ");
}

export function Gpus({ overview }: { overview: Overview }) {
  const { gpus } = overview;
  const [from, setFrom] = useState(0);
  const cutOff = wasCutOff(overview);
  const at = from < gpus.length ? from : 0;
  const shown = gpus.slice(at, at + PAGE);
  const servers = new Set(gpus.map((gpu) => gpu.server));
  return (
    <section id="gpus" aria-labelledby="gpus-title">
      <h2 id="gpus-title">GPUs {gpus.length > PAGE && <span class="quiet">{count(gpus.length)}: {tally(gpus, cutOff)}</span>}</h2>
      <div class="servers">
        {[...new Set(shown.map((gpu) => gpu.server))].map((server) => {
          const own = shown.filter((gpu) => gpu.server === server);
          const numbers = gpus.filter((gpu) => gpu.server === server).map((gpu) => gpu.gpu);
          const backends = overview.backends.filter((backend) => backend.gpus.some((gpu) => numbers.includes(gpu)));
          return (
            <div key={server} class="server" style={{ flexBasis: `min(100%, ${Math.min(own.length, 8) * 9.9}rem)` }}>
              {(servers.size > 1 || backends.length > 0) && (
                <h3>Server {server} <span class="quiet">{gpuNames(numbers)}</span>
                  {backends.map((backend) => <span key={backend.name} class={backend.up ? "pill" : "pill bad"} title={backend.why ?? ""}
                    data-server={backend.name}>{backend.name} {backend.state}</span>)}</h3>
              )}
              <ul class="gpus">{own.map((gpu) => <Tile key={gpu.gpu} gpu={gpu} cutOff={cutOff} over={overview.state === "finished"} />)}</ul>
            </div>
          );
        })}
      </div>
      <Pager from={at} page={PAGE} total={gpus.length} go={setFrom} of="GPUs" />
    </section>
  );
}

function Tile({ gpu, cutOff, over }: { gpu: GpuStatus; cutOff: boolean; over: boolean }) {
  const what = doing(gpu, cutOff, over);
  const { memory_gb: used, memory_total_gb: total } = gpu;
  const share = total ? Math.min(used / total, 1) : null;
  return (
    <li class={`gpu ${(cutOff || over) && gpu.state !== "lost" ? "was" : gpu.state}`} data-gpu={gpu.gpu} data-state={gpu.state}>
      <div class="top"><b>GPU {gpu.gpu}</b> <span class="doing" title={what}>{what}</span></div>
      <div class="on">
        {gpu.models.map((model) => <ModelName key={model} model={model} />)}
        {gpu.loading && !gpu.models.includes(gpu.loading) && <span class="coming"><ModelName model={gpu.loading} />{cutOff && <span class="quiet"> was loading</span>}</span>}
        {gpu.models.length === 0 && !gpu.loading && <span class="quiet">no model</span>}
      </div>
      <div class="memory">
        {share !== null && <span class="meter" aria-hidden="true"><span style={{ width: percent(share).replace(" ", "") }} /></span>}
        <span class="quiet">{gigabytes(used)}{total ? ` of ${gigabytes(total)}` : ""}</span>
      </div>
    </li>
  );
}
