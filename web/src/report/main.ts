// The charts of a report's page.

import { readRun } from "./columns";
import { ReportGantt } from "./gantt";

/** Makes the chart of one element, and says on it what was made, for whoever checks. */
async function make(element: HTMLElement): Promise<void> {
  const begun = performance.now();
  const run = await readRun(JSON.parse(element.querySelector("script")?.textContent ?? ""));
  const gantt = new ReportGantt(element, run);
  gantt.chart.draw();
  const busy = run.end.reduce((sum, end, row) => sum + end - (run.start[row] as number), 0);
  Object.assign(element.dataset, {
    bars: run.count, busy: busy.toFixed(6), drawn: element.querySelector("canvas")?.dataset["drawn"], ms: (performance.now() - begun).toFixed(0),
  });
  if (location.hash === "#measure") element.dataset["frame"] = gantt.measure().toFixed(2);
  if (run.count > 0) element.dataset["first"] = gantt.told(0);
  element.dataset["ready"] = "yes";
}

/** Draws every chart of the page. */
export async function draw(): Promise<void> {
  for (const element of document.querySelectorAll<HTMLElement>(".gantt")) {
    try {
      await make(element);
    } catch (error) {
      const said = element.querySelector(".found");
      if (said) said.textContent = `the chart cannot be drawn: ${error instanceof Error ? error.message : String(error)}`;
      console.error(error);
    }
    // Between two charts the page stays usable.
    await new Promise((done) => setTimeout(done, 0));
  }
}
