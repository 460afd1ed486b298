// The page of `gswarm view`: a run that has ended, one in progress, one that was interrupted. What is on the screen is what
// the execution log says.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, after, before } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { HistoryPage, Overview } from "../src/api/types";
import { count } from "../src/parts/format";
import { paintedAs } from "./painted";
import { GSWARM, accessible, browser, folder, gswarm, needing, noServer, noSidewaysScrolling, served, until, visit } from "./support";

let chrome: Browser;
before(async () => {
  if (!noServer) chrome = await browser();
});
after(() => chrome?.close());

interface Log {
  summary: { completed_requests: number; total_requests: number };
  executions: { request_id: string; node_id: string; model_name: string; gpu_ids: number[]; switch_time: number; start_time: number; end_time: number }[];
  loads: { model_name: string; gpu_ids: number[]; start_time: number; end_time: number }[];
}

interface Expected {
  kind: "run" | "load";
  gpus: number[];
  model: string;
  request: string | null;
  node: string | null;
  start: number;
  end: number;
}

/** The bars that a log tells of: every execution, the load before it where there was one, and loads ahead of need. */
function barsOf(log: Log): Expected[] {
  const runs = log.executions.map((one): Expected => ({ kind: "run", gpus: one.gpu_ids, model: one.model_name, request: one.request_id, node: one.node_id, start: one.start_time, end: one.end_time }));
  const load = (model: string, gpus: number[], start: number, end: number): Expected => ({ kind: "load", gpus, model, request: null, node: null, start, end });
  const before = log.executions.filter((one) => one.switch_time > 0).map((one) => load(one.model_name, one.gpu_ids, one.start_time - one.switch_time, one.start_time));
  const ahead = (log.loads ?? []).map((one) => load(one.model_name, one.gpu_ids, one.start_time, one.end_time));
  return [...runs, ...before, ...ahead];
}

/** Times have whole microseconds; what is reckoned from two of them is off by less than that. */
const micros = (seconds: number): number => Math.round(seconds * 1e6);

const keys = (bars: Omit<Expected, "request">[]): string[] =>
  bars.map((bar) => `${bar.kind} ${bar.model} on ${bar.gpus.join()}: ${micros(bar.start)} to ${micros(bar.end)}`).sort();

/** Makes a small run; `speed` says how many of its seconds go by in one of the clock's. */
async function inputs(t: TestContext, speed: number): Promise<{ made: string; run: string[] }> {
  const made = await folder(t);
  await gswarm("generate", "--preset", "simple", "--requests", "15", "--seed", "3", "--out", join(made, "work"));
  await writeFile(join(made, "servers.yaml"), `backends: [{kind: emulated, speed: ${speed}}]\n`);
  const run = ["run", "--live", "--backends", join(made, "servers.yaml"), "--policy", "planned", "--gpus", "4",
    "--config", join(made, "work/config.yaml"), "--requests", join(made, "work/requests.yaml"), "--out", join(made, "live")];
  return { made, run };
}

const logOf = async (made: string): Promise<Log> => JSON.parse(await readFile(join(made, "live/planned_execution_log.json"), "utf8")) as Log;

async function same(page: Page, log: Log, answers: { get<T>(path: string): Promise<T> }): Promise<void> {
  const expected = barsOf(log);
  const history = await answers.get<HistoryPage>("/v1/history?after=0");
  assert.deepEqual(keys(history.bars), keys(expected), "the server tells what the log does");
  const canvas = page.locator("#timeline canvas");
  await until("every bar has come", async () => Number(await canvas.getAttribute("data-bars")) === expected.length);
  const each = expected.reduce((sum, bar) => sum + bar.gpus.length, 0);
  await page.getByRole("button", { name: "All", exact: true }).click();
  await until("every bar is drawn", async () => Number(await canvas.getAttribute("data-drawn")) === each);
  const overview = await answers.get<Overview>("/v1/overview");
  const painted = await paintedAs(page, expected, overview.models.map((model) => model.name));
  assert.deepEqual(painted.wrong, []);
  assert.ok(painted.looked > expected.length / 2, `only ${painted.looked} bars were wide enough to look at`);
  const card = (name: string) => page.locator(`[data-card="${name}"] .value`).textContent();
  assert.equal(await card("executions"), count(log.executions.length));
  assert.equal(await card("loads"), count(expected.filter((bar) => bar.kind === "load").length));
  assert.equal(await card("completed"), count(log.summary.completed_requests));
}

const real = (name: string, run: (t: TestContext) => Promise<void>): void => needing(noServer, name, run);

real("a finished run is shown as its log tells it", async (t) => {
  const { made, run } = await inputs(t, 500);
  await gswarm(...run);
  const server = await served(t, "view", join(made, "live"), "--port", "0");
  const { page, faults } = await visit(t, chrome, server.address);
  await page.getByText("The run has finished").waitFor();
  assert.equal(await page.locator("#state").textContent(), "finished");
  assert.equal(await page.locator("#submit").count(), 0, "nothing can be submitted to a run");
  await same(page, await logOf(made), server);
  await page.locator("#requests").scrollIntoViewIfNeeded();
  await page.locator(".latest [data-status=completed]").first().waitFor();
  assert.equal(await page.locator(".latest [data-status=completed]").count(), 15, "all its requests are listed");
  for (const text of await page.locator('.latest [data-name="Took"]').allTextContents()) assert.match(text, /^\d.* (s|min|h)$/);
  assert.equal(await page.locator("#queue").count(), 0, "nobody waits any more");
  for (const text of await page.locator(".gpu .doing").allTextContents()) assert.match(text, /at the end$/);
  await page.locator(".slow [data-request]").nth(9).waitFor();
  await accessible(page);
  await page.setViewportSize({ width: 375, height: 800 });
  await noSidewaysScrolling(page);
  assert.deepEqual(faults, []);
});

real("a run in progress is followed to its end", async (t) => {
  const { made, run } = await inputs(t, 8);
  const child = spawn(GSWARM, run, { stdio: "ignore" });
  const ended = new Promise((done) => child.on("close", done));
  t.after(() => child.kill("SIGKILL"));
  await until("the journal is there", async () => readFile(join(made, "live/journal.db")).catch(() => null));
  const server = await served(t, "view", join(made, "live"), "--port", "0");
  const { page, faults } = await visit(t, chrome, server.address);
  await page.locator("#state", { hasText: "running" }).waitFor();
  await until("something runs", async () => Number(await page.locator("#timeline canvas").getAttribute("data-ongoing")) > 0);
  assert.equal(await ended, 0);
  await page.getByText("The run has finished").waitFor();
  await until("it is said aloud", async () => (await page.locator("#said").textContent())?.includes("finished"));
  await same(page, await logOf(made), server);
  assert.deepEqual(faults, []);
});

real("a run that was interrupted says so", async (t) => {
  const { made, run } = await inputs(t, 4);
  const child = spawn(GSWARM, run, { stdio: "ignore" });
  const ended = new Promise((done) => child.on("close", done));
  t.after(() => child.kill("SIGKILL"));
  await until("the journal is there", async () => readFile(join(made, "live/journal.db")).catch(() => null));
  const server = await served(t, "view", join(made, "live"), "--port", "0");
  const { page, faults } = await visit(t, chrome, server.address);
  const canvas = page.locator("#timeline canvas");
  await until("something has ended", async () => Number(await canvas.getAttribute("data-bars")) > 3);
  child.kill("SIGKILL");
  await ended;
  await page.getByText("The run was interrupted").waitFor();
  const history = await server.get<HistoryPage>("/v1/history?after=0");
  await until("every bar is drawn", async () => Number(await canvas.getAttribute("data-bars")) === history.bars.length);
  assert.equal(await page.locator('[data-card="gpus-busy"] .value').textContent(), "0/4");
  for (const text of await page.locator(".gpu .doing").allTextContents()) assert.match(text, /^(idle|was (running|loading)( ×\d+)?)$/);
  assert.equal((await page.locator("main").textContent())?.split("gswarm resume").length, 2, "how to go on is said once");
  assert.deepEqual(faults, []);
});
