// The page in a browser, against a real `gswarm serve`: what is on the screen is what the server says.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, after, before } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { HistoryPage, Overview, RequestRecord, WhatIf } from "../src/api/types";
import { span } from "../src/parts/format";
import { paintedAs } from "./painted";
import { PAGES, type Served, accessible, browser, folder, needing, noServer, noSidewaysScrolling, picture, served, tabTo, until, visit } from "./support";

let chrome: Browser;
before(async () => {
  if (!noServer) chrome = await browser();
});
after(() => chrome?.close());

/** Four GPUs on two servers; calls long enough to be seen beside a pause of half a minute; `sleeper` takes longer than any test, so that there is something to cancel. */
const CONFIG = `
models:
  writer: {name: Writer, memory_gb: 10, gpus_required: 1, load_time_seconds: 0.3, inference_time_mean: 0.25, type: llm}
  critic: {name: Critic, memory_gb: 12, gpus_required: 1, load_time_seconds: 0.3, inference_time_mean: 0.25, type: llm}
  finder: {name: Finder, memory_gb: 4, gpus_required: 1, load_time_seconds: 0.2, inference_time_mean: 0.2, type: embedding}
  sleeper: {name: Sleeper, memory_gb: 16, gpus_required: 1, load_time_seconds: 0.2, inference_time_mean: 600, type: llm}
workflows:
  story:
    name: A story, what a critic says of it, and where to find it
    nodes:
      - {id: write, model: writer, inputs: [wish], outputs: [story]}
      - {id: judge, model: critic, inputs: [story], outputs: [verdict]}
      - {id: index, model: finder, inputs: [story], outputs: [place]}
    edges: [{from: write, to: judge}, {from: write, to: index}]
  nap:
    name: A long sleep
    nodes: [{id: sleep, model: sleeper, inputs: [song], outputs: [dream]}]
    edges: []
cluster: {gpus: 4, gpus_per_server: 2, gpu_memory_gb: 24, switch_cost: load_time, pcie_gb_per_s: 16}
`;

async function started(t: TestContext, config = CONFIG, speed = 1): Promise<Served> {
  const made = await folder(t);
  await writeFile(join(made, "config.yaml"), config);
  await writeFile(join(made, "servers.yaml"), `backends: [{kind: emulated, speed: ${speed}}]\n`);
  // What sleeps would keep it from ending for ten minutes.
  return served(t, "serve", "--config", join(made, "config.yaml"), "--backends", join(made, "servers.yaml"), "--state", join(made, "state"), "--port", "0", "--drain-timeout", "1");
}

const real = (name: string, run: (t: TestContext) => Promise<void>): void => needing(noServer, name, run);

async function stories(server: Served, many: number): Promise<void> {
  for (let at = 0; at < many; at++) await server.post("/v1/workflows/story/requests", { request_id: `story-${at}`, input_data: { wish: `tale ${at}` } });
  await until("all stories are told", async () => (await server.get<Overview>("/v1/overview")).counts.open === 0);
}

const card = async (page: Page, name: string): Promise<string> => (await page.locator(`[data-card="${name}"] .value`).textContent()) ?? "";

real("the binary has this page in it", async (t) => {
  const server = await started(t);
  for (const name of ["app.js", "app.css", "index.html"]) {
    const response = await fetch(`${server.address}/${name === "index.html" ? "" : `dashboard/${name}`}`);
    const [there, here] = [await response.text(), await readFile(join(PAGES, name), "utf8")];
    assert.ok(there === here, `${name} of the binary is an older one: build it again`);
    assert.match(response.headers.get("content-security-policy") ?? "", /default-src 'none'/);
  }
});

real("what is on the screen equals what the server says", async (t) => {
  const server = await started(t);
  const { page, faults } = await visit(t, chrome, server.address);
  await page.locator("#state", { hasText: "running" }).waitFor();
  await stories(server, 25);
  const history = await server.get<HistoryPage>("/v1/history?after=0");
  const overview = await server.get<Overview>("/v1/overview");
  const canvas = page.locator("#timeline canvas");
  await until("all bars have come", async () => Number(await canvas.getAttribute("data-bars")) === history.bars.length);
  assert.equal(history.bars.filter((bar) => bar.kind === "run").length, 75, "three nodes of 25 stories");

  await page.getByRole("button", { name: "All", exact: true }).click();
  const each = history.bars.reduce((sum, bar) => sum + bar.gpus.length, 0);
  await until("all of them are drawn", async () => Number(await canvas.getAttribute("data-drawn")) === each);
  const painted = await paintedAs(page, history.bars, overview.models.map((model) => model.name));
  assert.deepEqual(painted.wrong, []);
  assert.ok(painted.looked > 60, `only ${painted.looked} bars were wide enough to look at`);

  const { counts } = overview;
  for (const [name, value] of [["open", counts.open], ["waiting", counts.waiting_nodes], ["completed", counts.completed], ["executions", counts.executions], ["loads", counts.loads], ["failed", counts.failed]] as const) {
    await until(`the card of ${name} says ${value}`, async () => (await card(page, name)) === String(value));
  }
  assert.equal(counts.completed, 25);
  assert.equal(counts.loads, history.bars.filter((bar) => bar.kind === "load").length);

  for (const gpu of overview.gpus) {
    const tile = page.locator(`[data-gpu="${gpu.gpu}"]`);
    assert.equal(await tile.getAttribute("data-state"), gpu.state);
    assert.deepEqual(await tile.locator(".on .model").allTextContents(), gpu.models);
  }
  assert.equal(await page.locator(".server h3").count(), 2, "two servers");

  await page.locator(".as-table summary").click();
  await page.locator(".bars tbody tr").first().waitFor();
  const rows = await page.locator(".bars tbody tr").evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll("td")].slice(0, 7).map((cell) => cell.textContent)));
  const last = history.bars.slice(-50).reverse();
  assert.deepEqual(rows.map((row) => [row[0], row[1], row[2], row[3], row[4], row[6]]), last.map((bar) => [bar.gpus.join(), bar.kind, bar.model, bar.request ?? "–", bar.node ?? "–", span(bar.end - bar.start)]));

  const happenings = page.locator("#happenings h2 .quiet");
  assert.equal(await happenings.textContent(), String(history.happenings.length));
  await page.getByRole("checkbox", { name: "Requests", exact: true }).uncheck();
  const others = history.happenings.filter((one) => !["accepted", "completed", "cancelled"].includes(one.kind)).length;
  await until("only the others are counted", async () => (await happenings.textContent()) === String(others));

  await page.locator("#requests").scrollIntoViewIfNeeded();
  const latest = (await server.get<{ requests: RequestRecord[] }>("/v1/requests?limit=15")).requests;
  await page.locator(".latest [data-status=completed]").first().waitFor();
  const shown = await page.locator(".latest [data-request]").evaluateAll((rows) => rows.map((row) => [row.getAttribute("data-request"), row.getAttribute("data-status")]));
  assert.deepEqual(shown, latest.map((request) => [request.request_id, request.status]));
  await accessible(page);
  assert.deepEqual(faults, []);
});

real("a request is submitted, seen, and another cancelled, with keys alone", async (t) => {
  const server = await started(t);
  const { page, faults } = await visit(t, chrome, server.address);
  await page.locator("#state", { hasText: "running" }).waitFor();

  await tabTo(page, "#submit textarea");
  await page.keyboard.type("Tell of a lighthouse");
  await tabTo(page, "#submit input[name=priority]");
  await page.keyboard.type("3");
  await tabTo(page, "#submit input[name=deadline_seconds]");
  await page.keyboard.type("60");
  await tabTo(page, "#submit input[name=request_id]");
  await page.keyboard.type("by-keys");
  await page.keyboard.press("Enter");
  await page.locator('.latest [data-request="by-keys"][data-status=completed]').waitFor();
  await tabTo(page, '.latest [data-request="by-keys"] button');
  await page.keyboard.press("Enter");
  const result = await server.get<RequestRecord>("/v1/requests/by-keys/result");
  assert.deepEqual([result.priority, result.deadline_seconds, result.deadline_missed], [3, 60, false]);
  const dialog = page.locator("dialog");
  await dialog.locator(".output").first().waitFor();
  assert.deepEqual((await dialog.locator(".output h4").allTextContents()).sort(), ["index", "judge", "write"]);
  const texts = await dialog.locator("pre").allTextContents();
  const wrote = Object.values(result.outputs ?? {}).flatMap((output) => Object.values(output as object));
  assert.deepEqual(texts.map((text) => JSON.parse(text)), wrote);
  await accessible(page);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await until("the focus is back where it was", () => page.evaluate(() => document.activeElement?.matches('[data-request="by-keys"] button') ?? false));

  await page.keyboard.press("Shift+Tab");
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.evaluate(() => window.scrollTo(0, 0));
  await tabTo(page, "#submit select");
  await page.keyboard.type("nap");
  await tabTo(page, "#submit textarea");
  await page.keyboard.type("Hush");
  await tabTo(page, "#submit input[name=request_id]");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("too-long");
  await page.keyboard.press("Enter");
  await page.locator('.latest [data-request="too-long"][data-status=open]').waitFor();
  await tabTo(page, '.latest [aria-label="Cancel too-long"]');
  await page.keyboard.press("Enter");
  await page.locator("dialog").waitFor();
  assert.ok(await page.evaluate(() => document.activeElement?.textContent === "Keep it"), "what does no harm has the focus");
  await tabTo(page, "dialog button.danger", 5);
  await page.keyboard.press("Enter");
  await page.locator('.latest [data-request="too-long"][data-status=cancelled]').waitFor();
  assert.equal((await server.get<RequestRecord>("/v1/requests/too-long")).status, "cancelled");
  await until("it is said aloud", async () => (await page.locator("#said").textContent())?.includes("too-long is cancelled"));
  await page.locator("#happenings [data-kind=cancelled]").waitFor();
  assert.equal((await server.get<Overview>("/v1/overview")).counts.cancelled, 1);
  assert.deepEqual(faults, []);
});

real("the queue says who waits and why, and what if says what would be", async (t) => {
  const server = await started(t);
  for (let at = 0; at < 30; at++) await server.post("/v1/workflows/nap/requests", { request_id: `nap-${at}`, input_data: { song: "la" } });
  const { page, faults } = await visit(t, chrome, server.address);
  await page.locator("#queue").scrollIntoViewIfNeeded();
  const queue = await until("four run and the others wait", async () => {
    const found = await server.get<{ open: number; waiting_nodes: number; requests: { request_id: string }[] }>("/v1/queue?from=0&limit=12");
    return found.waiting_nodes === 26 && found;
  });
  await until("so does the page", async () => (await page.locator('#queue [data-model=sleeper] [data-name="Waiting"]').textContent()) === "26");
  assert.equal(await page.locator("#queue-title .quiet").textContent(), `${queue.open} open`);
  const rows = page.locator("#queue [data-request]");
  await rows.nth(queue.requests.length - 1).waitFor();
  assert.deepEqual(await rows.evaluateAll((rows) => rows.map((row) => row.getAttribute("data-request"))), queue.requests.map((request) => request.request_id));
  await until("those that wait say for what", async () => /replicas are busy/.test((await rows.nth(6).locator(".why").textContent()) ?? ""));
  await until("all GPUs have loaded and are at work", async () => (await card(page, "gpus-busy")) === "4/4");

  await page.locator("#what-if input[name=gpus]").fill("8");
  await page.locator("#what-if select[name=policy]").selectOption("baseline");
  const [answer] = await Promise.all([page.waitForResponse((response) => response.url().endsWith("/v1/what-if")), page.locator("#what-if button[type=submit]").click()]);
  const outcome = (await answer.json()) as WhatIf;
  assert.deepEqual([outcome.as_it_is.gpus, outcome.what_if.gpus, outcome.what_if.policy, outcome.as_it_is.requests, outcome.as_it_is.coming], [4, 8, "baseline", 60, 30]);
  assert.ok(outcome.what_if.ends_in < outcome.as_it_is.ends_in, "twice the GPUs are faster");
  const row = page.locator('[data-row="All done after"] td');
  assert.deepEqual((await row.allTextContents()).slice(0, 2), [span(outcome.as_it_is.ends_in), span(outcome.what_if.ends_in)]);
  assert.match((await row.allTextContents())[2] ?? "", /sooner/);
  const drawn = await page.locator("#what-if canvas").evaluateAll((all) => all.map((canvas) => Number(canvas.dataset.drawn)));
  assert.deepEqual(drawn, [outcome.as_it_is.bars.length, outcome.what_if.bars.length]);
  await page.setViewportSize({ width: 375, height: 800 });
  await noSidewaysScrolling(page);
  await accessible(page);
  assert.deepEqual(faults, []);
});

real("the pictures of the documents", async (t) => {
  if (process.env.SCREENSHOTS !== "1") return t.skip("only with SCREENSHOTS=1");
  const server = await started(t, BUSY);
  const names = ["story", "poster", "question"];
  const sent = setInterval(() => {
    const name = names[Math.floor(Math.random() * 3)] as string;
    void server.post(`/v1/workflows/${name}/requests`, { input_data: { wish: "w", subject: "s", question: "q" }, priority: Math.random() < 0.1 ? 5 : 0 }).catch(() => undefined);
  }, 400);
  t.after(() => clearInterval(sent));
  await until("there is something to see", async () => (await server.get<Overview>("/v1/overview")).now > 110, 240_000);
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, faults } = await visit(t, chrome, server.address, { colorScheme, viewport: { width: 1280, height: 1120 } });
    await until("bars are there", async () => Number(await page.locator("#timeline canvas").getAttribute("data-bars")) > 100);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await picture(page, colorScheme === "dark" ? "dashboard-dark.png" : "dashboard.png");
    assert.deepEqual(faults, []);
  }
});

/** Eight GPUs, and more models than they hold. */
const BUSY = `
models:
  llama-70b: {name: l, memory_gb: 40, gpus_required: 2, load_time_seconds: 4, inference_time_mean: 2.5, type: llm}
  qwen-vl-7b: {name: q, memory_gb: 16, gpus_required: 1, load_time_seconds: 2, inference_time_mean: 1.2, type: llm}
  sdxl: {name: s, memory_gb: 12, gpus_required: 1, load_time_seconds: 1.5, inference_time_mean: 2, type: image}
  reranker: {name: r, memory_gb: 6, gpus_required: 1, load_time_seconds: 1, inference_time_mean: 0.6, type: llm}
  embedder: {name: e, memory_gb: 4, gpus_required: 1, load_time_seconds: 0.8, inference_time_mean: 0.3, type: embedding}
workflows:
  story:
    name: A story and where to find it
    nodes:
      - {id: write, model: llama-70b, inputs: [wish], outputs: [story]}
      - {id: index, model: embedder, inputs: [story], outputs: [place]}
    edges: [{from: write, to: index}]
  poster:
    name: A poster of a subject
    nodes:
      - {id: think, model: qwen-vl-7b, inputs: [subject], outputs: [prompt]}
      - {id: paint, model: sdxl, inputs: [prompt], outputs: [image]}
      - {id: judge, model: qwen-vl-7b, inputs: [image], outputs: [verdict]}
    edges: [{from: think, to: paint}, {from: paint, to: judge}]
  question:
    name: An answer from what is known
    nodes:
      - {id: embed, model: embedder, inputs: [question], outputs: [place]}
      - {id: rank, model: reranker, inputs: [place], outputs: [found]}
      - {id: answer, model: qwen-vl-7b, inputs: [found], outputs: [answer]}
    edges: [{from: embed, to: rank}, {from: rank, to: answer}]
cluster: {gpus: 8, gpus_per_server: 4, gpu_memory_gb: 24, switch_cost: load_time, pcie_gb_per_s: 16}
`;
