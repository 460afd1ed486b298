// What is said aloud to those who do not see the page: changes of state only, and each once.

import type { Overview } from "../api/types";
import { gpuNames } from "../parts/format";
import type { Link } from "./live";

export interface Said {
  link: Link["state"];
  state: string;
  lost: number[];
  failed: number;
}

export const standing = (overview: Overview | null, link: Link): Said => ({
  link: link.state,
  state: overview?.state ?? "",
  lost: overview?.gpus.filter((gpu) => gpu.state === "lost").map((gpu) => gpu.gpu) ?? [],
  failed: overview?.counts.failed ?? 0,
});

/** What has changed between two standings, in sentences; empty where nothing has that anybody should be interrupted for. */
export function changes(before: Said | null, now: Said): string {
  const said: string[] = [];
  if (now.link === "down" && before?.link !== "down") said.push("The connection to the server was lost. Reconnecting.");
  if (now.link === "up" && before?.link === "down") said.push("The server answers again.");
  if (before === null || before.state === "") return said.join(" ");
  if (now.state !== before.state) said.push(`The state is now: ${now.state}.`);
  const gone = now.lost.filter((gpu) => !before.lost.includes(gpu));
  const back = before.lost.filter((gpu) => !now.lost.includes(gpu));
  if (gone.length) said.push(`${gpuNames(gone)} lost.`);
  if (back.length) said.push(`${gpuNames(back)} back.`);
  if (now.failed > before.failed) said.push(`${now.failed - before.failed} more failed.`);
  return said.join(" ");
}
