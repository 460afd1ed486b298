// The page in a browser, against a server that does what no real one does on demand.

import assert from "node:assert/strict";
import test, { type TestContext, after, before } from "node:test";
import type { Browser } from "playwright-core";
import { Mock } from "../mock/server";
import type { Options } from "../mock/world";
import { PAGES, accessible, browser, noBrowser, noSidewaysScrolling, tabTo, until, visit } from "./support";

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

const inBrowser = (name: string, run: (t: TestContext) => Promise<void>): void => void test(name, { skip: noBrowser }, run);

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

inBrowser("twenty thousand bars are drawn as fast as they move", async (t) => {
  const { mock, address } = await mocked(t, { gpus: 64, past: 1300 });
  assert.ok(mock.world.bars.length >= 20_000, String(mock.world.bars.length));
  const { page, faults } = await visit(t, chrome, address);
  const canvas = page.locator("#timeline canvas");
  await until("all bars are there", async () => Number(await canvas.getAttribute("data-bars")) >= 20_000);
  await page.getByRole("button", { name: "All", exact: true }).click();
  const frames: number[] = [];
  for (let at = 0; at < 12; at++) {
    await canvas.press(at % 2 ? "ArrowLeft" : "ArrowRight");
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    frames.push(Number(await canvas.getAttribute("data-frame")));
  }
  assert.ok(Number(await canvas.getAttribute("data-drawn")) >= 18_000);
  // The fastest, and with room: it is to tell of a mistake, not of a busy neighbour.
  const least = Math.min(...frames);
  t.diagnostic(`a frame of ${mock.world.bars.length} bars takes ${least} ms`);
  assert.ok(least < 40, `a frame takes ${least} ms`);
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
  await until("it is said aloud", async () => (await page.locator("#said").textContent())?.includes("connection to the server is lost"));
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

inBrowser("a run that has ended says so, and nothing can be submitted", async (t) => {
  for (const [state, words] of [["finished", "The run is finished"], ["interrupted", "The run was interrupted"]] as const) {
    const { mock, address } = await mocked(t, { state, source: "log" });
    const { page, faults } = await visit(t, chrome, address);
    await page.getByText(words).waitFor();
    assert.equal(await page.locator("#state").textContent(), state);
    assert.equal(await page.locator("#submit").count(), 0);
    assert.equal(await page.locator("#what-if").count(), 0);
    const canvas = page.locator("#timeline canvas");
    // All of a run that has ended is seen at once.
    await until("every bar is drawn", async () => Number(await canvas.getAttribute("data-drawn")) === mock.world.bars.length);
    assert.deepEqual(faults, []);
  }
});

inBrowser("a service that stops, a GPU that is lost and one that comes back are told", async (t) => {
  const { mock, address } = await mocked(t);
  const { page, faults } = await visit(t, chrome, address);
  await page.locator("#state", { hasText: "running" }).waitFor();
  mock.world.lost = 2;
  await page.getByText("Server rack-a (GPU 2) has not answered").waitFor();
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
  await until("only the new ones are there", async () => Number(await canvas.getAttribute("data-bars")) < 200);
  assert.deepEqual(faults, []);
});
