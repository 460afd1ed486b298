// The page in a browser, against a server that does what no real one does on demand.

import assert from "node:assert/strict";
import { type TestContext, after, before } from "node:test";
import type { Browser, Page } from "playwright-core";
import { Mock } from "../mock/server";
import type { Options } from "../mock/world";
import { PAGES, accessible, browser, needing, noBrowser, noSidewaysScrolling, tabTo, until, visit } from "./support";

let chrome: Browser;
before(async () => {
  if (!noBrowser) chrome = await browser();
});
after(() => chrome?.close());

async function mocked(t: TestContext, options: Partial<Options> = {}): Promise<{ mock: Mock; address: string }> {
  const mock = new Mock(PAGES, options);
  const address = await mock.listen();
  t.after(() => mock.close());
  return { mock, address };
}

const inBrowser = (name: string, run: (t: TestContext) => Promise<void>): void => needing(noBrowser, name, run);

for (const colorScheme of ["light", "dark"] as const) {
  inBrowser(`everything can be reached and read, ${colorScheme}`, async (t) => {
    const { address } = await mocked(t, { lost: 3 });
    const { page, faults } = await visit(t, chrome, address, { colorScheme });
    await page.locator('[data-card="open"]').waitFor();
    await page.locator("#queue").scrollIntoViewIfNeeded();
    await page.locator("#queue [data-request]").first().waitFor();
    await page.locator("#what-if button[type=submit]").click();
    await page.locator(".outcomes").waitFor();
    await page.locator(".as-table summary").click();
    await page.locator(".bars tbody tr").first().waitFor();
    await accessible(page);
    await page.locator("#queue .link").first().click();
    await page.locator("dialog").waitFor();
    await accessible(page);
    assert.deepEqual(faults.filter((fault) => !fault.includes("404")), []);
  });
}

inBrowser("a telephone shows all of it without scrolling sideways", async (t) => {
  const { address } = await mocked(t, { gpus: 64, lost: 3 });
  const { page, faults } = await visit(t, chrome, address, { viewport: { width: 375, height: 800 }, hasTouch: true });
  await page.locator('[data-card="open"]').waitFor();
  for (const section of ["timeline", "gpus", "trends", "queue", "happenings", "requests", "what-if"]) {
    await page.locator(`#${section}`).scrollIntoViewIfNeeded();
    await noSidewaysScrolling(page);
  }
  await page.locator("#what-if button[type=submit]").click();
  await page.locator(".outcomes").waitFor();
  await noSidewaysScrolling(page);
  await accessible(page);
  assert.deepEqual(faults, []);
});

inBrowser("nothing sticks out where ids are long and requests slow", async (t) => {
  const { mock, address } = await mocked(t, { length: 160 });
  for (let at = 0; at < 15; at++) {
    const id = `nightly-batch-of-product-descriptions-${at}-${"0123456789abcdef".repeat(3)}`;
    mock.world.records.set(id, { request_id: id, workflow_id: "translate-summarise-and-illustrate-for-the-newsletter", status: "open", why: null, accepted_at: Date.now() / 1000 + 1e6, ended_at: null });
  }
  const { page, faults } = await visit(t, chrome, address, { viewport: { width: 1280, height: 800 } });
  await page.locator("#requests").scrollIntoViewIfNeeded();
  await page.locator(".latest button.small").nth(14).waitFor();
  for (const width of [1280, 1090, 1024, 760, 375]) {
    await page.setViewportSize({ width, height: 800 });
    await noSidewaysScrolling(page);
    const out = await page.evaluate(() => [...document.querySelectorAll("section")].flatMap((section) => {
      const box = section.getBoundingClientRect();
      const beyond = (part: Element): boolean => part.getBoundingClientRect().left < box.left || part.getBoundingClientRect().right > box.right + 0.5;
      return [...section.querySelectorAll("button.small, .chart text, td")].filter((part) => !part.closest(".scroll") && beyond(part)).map((part) => `${section.id}: ${part.textContent}`);
    }));
    assert.deepEqual(out, [], `at ${width} pixels`);
  }
  await accessible(page);
  assert.deepEqual(faults, []);
});

inBrowser("a what-if waits for another, and its answer for whoever changes the form meanwhile", async (t) => {
  const { mock, address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address, {}, /429/);
  const [form, said] = [page.locator("#what-if form"), page.locator("#what-if [role=status]")];
  mock.simulating = true;
  await form.locator("input[name=gpus]").fill("20");
  await form.locator("button[type=submit]").click();
  await said.filter({ hasText: "Another what-if is being computed" }).waitFor();
  let answer = (): void => undefined;
  mock.simulated = new Promise((done) => (answer = done));
  mock.simulating = false;
  await form.locator("input[name=gpus]").fill("24");
  await form.locator("select[name=policy]").selectOption("planned");
  assert.ok(await form.locator("button[type=submit]").isDisabled(), "one at a time");
  answer();
  await said.filter({ hasText: "With 20 GPUs, the P99 of the 24 open requests" }).waitFor();
  await form.locator("button[type=submit]").click();
  await said.filter({ hasText: "With 24 GPUs and planned" }).waitFor();
  assert.deepEqual(faults, []);
});

inBrowser("a what-if shows the parameters of the policy that is chosen, and sends those that were filled in", async (t) => {
  const { address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address);
  const form = page.locator("#what-if form");
  const asked = async (): Promise<unknown> => {
    const [request] = await Promise.all([page.waitForRequest((request) => request.url().endsWith("/v1/what-if")), form.locator("button[type=submit]").click()]);
    await form.locator("button[type=submit]:enabled").waitFor();
    return request.postDataJSON();
  };
  await form.locator("input[name=load_factor]").fill("2.5");
  await form.locator("select[name=objective]").selectOption("p99");
  await accessible(page);
  assert.deepEqual(await asked(), { cluster: { gpus: 16 }, policy: { name: "adaptive", load_factor: 2.5, objective: "p99" } });
  await form.locator("select[name=policy]").selectOption("baseline");
  assert.equal(await form.locator("fieldset").count(), 0, "it has none");
  assert.deepEqual(await asked(), { cluster: { gpus: 16 }, policy: { name: "baseline" } });
  await form.locator("select[name=policy]").selectOption("adaptive");
  assert.equal(await form.locator("input[name=load_factor]").inputValue(), "", "what was given for another choice is gone");
  assert.deepEqual(faults, []);
});

inBrowser("an id cannot turn or hide what stands around it", async (t) => {
  const { mock, address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address);
  const id = "order\u202Edetelpmoc\u2066";
  mock.world.records.set(id, { request_id: id, workflow_id: "story", status: "open", why: null, accepted_at: Date.now() / 1000 + 1e6, ended_at: null });
  mock.world.happen("accepted", mock.world.now(), `${id} was accepted`, { request: id });
  await page.locator("#requests").scrollIntoViewIfNeeded();
  await page.locator(".latest .link bdi", { hasText: "order\\u202Edetelpmoc\\u2066" }).waitFor();
  await page.locator("#happenings bdi", { hasText: "order\\u202Edetelpmoc\\u2066" }).waitFor();
  await page.locator(".latest button.small").first().click();
  await page.locator("dialog h2", { hasText: "Cancel order\\u202Edetelpmoc\\u2066?" }).waitFor();
  await page.locator("dialog button.danger").click();
  await until("that one is cancelled", async () => mock.world.records.get(id)?.status === "cancelled");
  await page.locator("dialog").waitFor({ state: "detached" });
  const raw = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent ?? ""));
  assert.equal(raw, false, "nothing that is shown has such a character in it");
  assert.deepEqual(faults, []);
});

inBrowser("a thousand GPUs are shown a page at a time", async (t) => {
  const { address } = await mocked(t, { gpus: 1024, past: 5, lost: 1000 });
  const { page, faults } = await visit(t, chrome, address, { viewport: { width: 375, height: 800 } });
  await page.locator('[data-gpu="63"]').waitFor();
  assert.equal(await page.locator("[data-gpu]").count(), 64);
  assert.match((await page.locator("#gpus-title").textContent()) ?? "", /1,024: .*1 lost/);
  const tall = await page.locator("#gpus").evaluate((section) => section.getBoundingClientRect().height);
  assert.ok(tall < 8000, `${tall} pixels tall`);
  await page.locator("#gpus").getByRole("button", { name: "Last page" }).click();
  await page.locator('[data-gpu="1000"][data-state="lost"]').waitFor();
  await noSidewaysScrolling(page);
  await accessible(page);
  assert.deepEqual(faults, []);
});

/** How many calls of the canvas a bar may take: a colour, a rectangle, and little else. */
const CALLS_A_BAR = 3;

/** Counts the calls of every canvas from now on, as `window.calls`. */
const countCalls = (page: Page): Promise<void> => page.evaluate(() => {
  const counted = window as unknown as { calls: number };
  counted.calls = 0;
  const prototype = CanvasRenderingContext2D.prototype as unknown as Record<string, unknown>;
  for (const [name, found] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    const { value, get, set } = found;
    if (typeof value === "function") {
      prototype[name] = function (this: unknown, ...args: unknown[]): unknown {
        counted.calls++;
        return (value as (...args: unknown[]) => unknown).apply(this, args);
      };
    } else if (get && set) {
      Object.defineProperty(prototype, name, { get, set(this: unknown, to: unknown) { counted.calls++; set.call(this, to); }, configurable: true });
    }
  }
});

inBrowser("twenty thousand bars take few calls of the canvas each", async (t) => {
  const { mock, address } = await mocked(t, { gpus: 64, past: 1300 });
  assert.ok(mock.world.bars.length >= 20_000, String(mock.world.bars.length));
  const { page, faults } = await visit(t, chrome, address);
  const canvas = page.locator("#timeline canvas");
  await until("all bars are there", async () => Number(await canvas.getAttribute("data-bars")) >= 20_000);
  await page.getByRole("button", { name: "All", exact: true }).click();
  await until("they are drawn", async () => Number(await canvas.getAttribute("data-drawn")) >= 18_000);
  await countCalls(page);
  let frames = 0;
  for (let at = 0; at < 4; at++, frames++) {
    await canvas.press(at % 2 ? "ArrowLeft" : "ArrowRight");
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  const calls = await page.evaluate(() => (window as unknown as { calls: number }).calls);
  const drawn = Number(await canvas.getAttribute("data-drawn"));
  // Time is only told: it depends on the machine.
  t.diagnostic(`${frames} moves of ${drawn} bars took ${calls} calls; a frame takes ${await canvas.getAttribute("data-frame")} ms`);
  assert.ok(calls >= drawn, "the frames were counted");
  assert.ok(calls < 2 * frames * drawn * CALLS_A_BAR, `${calls} calls for ${frames} moves of ${drawn} bars`);
  assert.deepEqual(faults, []);
});

inBrowser("ten thousand that wait are shown a page at a time", async (t) => {
  const { address } = await mocked(t, { waiting: 10_000 });
  const { page, faults } = await visit(t, chrome, address);
  const rows = page.locator("#queue [data-request]");
  await page.locator("#queue").scrollIntoViewIfNeeded();
  await rows.first().waitFor();
  assert.ok((await rows.count()) <= 20);
  await page.getByRole("button", { name: "Last page" }).first().click();
  await page.locator('#queue [data-request="wait-09999"]').waitFor();
  assert.ok((await page.locator("*").count()) < 2500, "the page stays small");
  assert.deepEqual(faults, []);
});

inBrowser("a server that goes is missed, and found again", async (t) => {
  const { mock, address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address, {}, /502/);
  await page.locator("#state", { hasText: "running" }).waitFor();
  mock.gone = true;
  await page.locator("#gone", { hasText: "No connection" }).waitFor();
  await until("it is said aloud", async () => (await page.locator("#said").textContent())?.includes("connection to the server was lost"));
  assert.equal(await page.locator("#state").textContent(), "no connection");
  assert.ok(await page.locator('[data-card="open"]').isVisible(), "what was known stays");
  mock.gone = false;
  await page.locator("#gone").waitFor({ state: "detached" });
  await until("it is said aloud", async () => (await page.locator("#said").textContent())?.includes("answers again"));
  assert.equal(await page.locator("#state").textContent(), "running");
  assert.deepEqual(faults, []);
});

inBrowser("a token is asked for, kept for the tab, and asked for again where it is wrong", async (t) => {
  const { mock, address } = await mocked(t);
  mock.token = "open sesame";
  const { page, faults } = await visit(t, chrome, address, {}, /401/);
  const field = page.locator("dialog input[name=token]");
  await field.fill("guessed");
  await field.press("Enter");
  await page.getByText("did not accept this token").waitFor();
  await accessible(page);
  await field.fill("open sesame");
  await field.press("Enter");
  await page.locator("#state", { hasText: "running" }).waitFor();
  await page.reload();
  await page.locator("#state", { hasText: "running" }).waitFor();
  assert.deepEqual(faults, []);
});

/** What was under way when a run was interrupted is told as what was, and nothing twice. */
async function nothingGoesOn(page: Page, mock: Mock): Promise<void> {
  const held = mock.world.gpus().filter((gpu) => gpu.state !== "idle").length;
  assert.ok(held > 0, "something was under way");
  assert.equal(await page.locator('[data-card="gpus-busy"]').textContent(), `GPUs at work0/16${held} were`);
  for (const text of await page.locator(".gpu .doing").allTextContents()) assert.match(text, /^(idle|was (running|loading)( ×\d+)?)$/);
  await page.locator(".as-table summary").click();
  assert.equal(await page.getByText("under way").count(), 0);
  assert.equal((await page.locator("main").textContent())?.split("gswarm resume").length, 2, "how to go on is said once");
}

inBrowser("a run that has ended says so, and nothing can be submitted", async (t) => {
  for (const [state, words] of [["finished", "The run has finished"], ["interrupted", "The run was interrupted"]] as const) {
    const { mock, address } = await mocked(t, { state, source: "log" });
    const { page, faults } = await visit(t, chrome, address);
    await page.getByText(words).waitFor();
    assert.equal(await page.locator("#state").textContent(), state);
    assert.equal(await page.locator("#submit").count(), 0);
    assert.equal(await page.locator("#what-if").count(), 0);
    const canvas = page.locator("#timeline canvas");
    // All of a run that has ended is seen at once.
    await until("every bar is drawn", async () => Number(await canvas.getAttribute("data-drawn")) === mock.world.bars.length + mock.world.ongoing().length);
    assert.match((await page.locator('[data-card="latency"]').textContent()) ?? "", /whole run$/);
    if (state === "interrupted") await nothingGoesOn(page, mock);
    assert.deepEqual(faults, []);
  }
});

inBrowser("a service that stops, a GPU that is lost and one that comes back are told", async (t) => {
  const { mock, address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address);
  await page.locator("#state", { hasText: "running" }).waitFor();
  mock.world.lost = 2;
  await page.getByText("Server rack-a (GPU 2) has been gone").waitFor();
  await page.locator('[data-gpu="2"][data-state="lost"]').waitFor();
  await until("it is said aloud", async () => (await page.locator("#said").textContent()) === "GPU 2 lost.");
  mock.world.lost = null;
  await until("it is said aloud", async () => (await page.locator("#said").textContent()) === "GPU 2 back.");
  mock.world.state = "stopping";
  await page.getByText("The service is stopping").waitFor();
  assert.deepEqual(faults, []);
});

inBrowser("the timeline is read and moved with keys", async (t) => {
  const { address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address, { reducedMotion: "reduce" });
  await page.locator('[data-card="open"]').waitFor();
  await tabTo(page, "#timeline canvas");
  const read = () => page.locator("#timeline > .unseen").textContent();
  await page.keyboard.press("p");
  const first = await until("a bar is read out", async () => await read());
  await page.keyboard.press("p");
  await page.keyboard.press("p");
  await until("another is", async () => (await read()) !== first);
  await page.keyboard.press("ArrowDown");
  await until("one of the next GPU is", async () => (await read())?.includes("GPU 1"));
  const width = async () => Number(await page.locator("#timeline canvas").getAttribute("data-to")) - Number(await page.locator("#timeline canvas").getAttribute("data-from"));
  const before = await width();
  await page.keyboard.press("+");
  await until("it comes nearer", async () => (await width()) < before * 0.8);
  await page.keyboard.press("ArrowLeft");
  await until("it no longer follows", async () => (await page.getByRole("button", { name: "Follow now" }).getAttribute("aria-pressed")) === "false");
  await page.keyboard.press("f");
  await until("it follows again", async () => (await page.getByRole("button", { name: "Follow now" }).getAttribute("aria-pressed")) === "true");
  await page.keyboard.press("Escape");
  await until("nothing is marked", async () => (await read()) === "");
  assert.deepEqual(faults, []);
});

inBrowser("a server that begins anew is not mixed with what was before", async (t) => {
  const { mock, address } = await mocked(t, { past: 300 });
  const { page, faults } = await visit(t, chrome, address);
  const canvas = page.locator("#timeline canvas");
  await until("bars are there", async () => Number(await canvas.getAttribute("data-bars")) > 500);
  mock.world = new (mock.world.constructor as typeof import("../mock/world").World)({ ...mock.world.options, past: 10 });
  // However long that takes: the new one grows, but has far to go until it has as many as the old one had.
  await until("only the new ones are there", async () => Number(await canvas.getAttribute("data-bars")) <= mock.world.bars.length);
  assert.deepEqual(faults, []);
});
