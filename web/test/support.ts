// A browser, a server, and a folder for each test; all of it is gone when the test ends.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { type TestContext } from "node:test";
import { type Browser, type BrowserContextOptions, type Page, chromium } from "playwright-core";

export const PAGES = join(process.cwd(), "../crates/serve/assets/dashboard");
export const BROWSER = process.env.GSWARM_BROWSER ?? "/usr/bin/chromium";
export const GSWARM = process.env.GSWARM_BIN ?? join(process.cwd(), "../target/debug/gswarm");

/** Why tests in a browser cannot run here, where that is so. */
export const noBrowser: string | false = existsSync(BROWSER) ? false : `there is no browser at ${BROWSER}; GSWARM_BROWSER names one`;
export const noServer: string | false = noBrowser || (existsSync(GSWARM) ? false : `there is no ${GSWARM}; GSWARM_BIN names one`);

/** A test that needs what may be missing. Then it is skipped and added to the list of `cargo xtask test`; under CI, which has everything, it fails. */
export function needing(missing: string | false, name: string, run: (t: TestContext) => Promise<void>): void {
  if (missing && process.env.CI) {
    void test(name, () => assert.fail(`CI is set, so this must not be skipped: ${missing}`));
    return;
  }
  if (missing && process.env.GSWARM_SKIPPED_TESTS) appendFileSync(process.env.GSWARM_SKIPPED_TESTS, `web ${name}: ${missing}\n`);
  void test(name, { skip: missing }, run);
}

/** A guard against hanging, in milliseconds: nothing is asserted about time. */
const LIMIT = 90_000;

const QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export async function browser(): Promise<Browser> {
  return chromium.launch({ executablePath: BROWSER, args: QUIET, timeout: LIMIT });
}

export interface Visit {
  page: Page;
  /** Faults that the page has met, and requests that left its origin: there must be none. */
  faults: string[];
}

/** Opens a page and watches it. Faults that a test provokes are named in `expected`. */
export async function visit(t: TestContext, from: Browser, address: string, options: BrowserContextOptions = {}, expected = /^$/): Promise<Visit> {
  const context = await from.newContext({ viewport: { width: 1400, height: 950 }, ...options });
  t.after(() => context.close());
  context.setDefaultTimeout(LIMIT);
  const page = await context.newPage();
  const faults: string[] = [];
  const fault = (text: string): void => void (expected.test(text) || faults.push(text));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && fault(`console: ${message.text()}`));
  page.on("pageerror", (error) => fault(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.origin !== new URL(address).origin) faults.push(`left the origin: ${request.url()}`);
  });
  // While one works on the page: its newest files, without building the binary that they are to be in for each change.
  if (process.env.GSWARM_PAGE === "built") {
    await page.route("**/dashboard/*", (route) => route.fulfill({ path: join(PAGES, new URL(route.request().url()).pathname.split("/").at(-1) ?? "") }));
  }
  await page.goto(address);
  return { page, faults };
}

/** Everything that axe knows of accessibility at the levels A and AA, and its best practices. */
export async function accessible(page: Page): Promise<void> {
  const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // Evaluated by the debugger, since the page's policy rightly lets no foreign script in.
  await page.evaluate(source);
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(): Promise<{ violations: { id: string; help: string; nodes: { html: string }[] }[] }> } };
    return (await axe.run()).violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
  assert.deepEqual(found, []);
}

export async function folder(t: TestContext): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "gswarm-dashboard-"));
  t.after(() => rm(made, { recursive: true, force: true }));
  return made;
}

/** Runs gswarm to its end. */
export async function gswarm(...args: string[]): Promise<void> {
  const child = spawn(GSWARM, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (text) => (said += String(text)));
  const code = await new Promise((done) => child.on("close", done));
  assert.equal(code, 0, `gswarm ${args.join(" ")}: ${said}`);
}

export interface Served {
  address: string;
  child: ChildProcess;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
}

/** Starts a server of gswarm; the first line that it says ends with its address. */
export async function served(t: TestContext, ...args: string[]): Promise<Served> {
  const child = spawn(GSWARM, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (text) => (said += String(text)));
  const ended = new Promise<void>((done) => child.on("close", () => done()));
  t.after(async () => {
    child.kill("SIGTERM");
    const hard = setTimeout(() => child.kill("SIGKILL"), LIMIT);
    await ended;
    clearTimeout(hard);
  });
  const address = await new Promise<string>((found, fail) => {
    createInterface({ input: child.stdout }).once("line", (line) => {
      const url = /https?:\/\/\S+/.exec(line)?.[0];
      if (url) found(url.replace(/\/$/, ""));
      else fail(new Error(`no address in: ${line}`));
    });
    child.once("close", (code) => fail(new Error(`gswarm ${args[0]} ended with ${code}: ${said}`)));
  });
  const asked = async <T>(path: string, init?: RequestInit): Promise<T> => {
    const response = await fetch(`${address}${path}`, init);
    assert.ok(response.ok, `${path}: ${response.status}`);
    return (await response.json()) as T;
  };
  return {
    address, child, get: (path) => asked(path),
    post: (path, body) => asked(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  };
}

/** Waits until something holds, and says what it was when it does not within a limit. */
export async function until<T>(what: string, ask: () => Promise<T | false | null | undefined>, limit = LIMIT): Promise<T> {
  const end = Date.now() + limit;
  for (;;) {
    const found = await ask();
    if (found) return found;
    assert.ok(Date.now() < end, `not within ${limit / 1000} s: ${what}`);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

/** Presses Tab until something has the focus that a selector names: what cannot be reached so cannot be used without a mouse. */
export async function tabTo(page: Page, selector: string, most = 150): Promise<void> {
  for (let times = 0; times < most; times++) {
    if (await page.evaluate((selector) => document.activeElement?.matches(selector) ?? false, selector)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`${selector} cannot be reached with Tab`);
}

export async function noSidewaysScrolling(page: Page): Promise<void> {
  const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok((wide ?? 0) <= (seen ?? 0), `the page is ${wide} wide where ${seen} are seen`);
}

/** For docs/images, when asked for. */
export async function picture(page: Page, name: string): Promise<void> {
  if (process.env.SCREENSHOTS !== "1") return;
  const images = join(process.cwd(), "../docs/images");
  await mkdir(images, { recursive: true });
  await writeFile(join(images, name), await page.screenshot({ type: "png" }));
}
