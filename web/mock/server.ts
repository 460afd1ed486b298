// The mock as a server: the built page, and the answers that the page asks for.

import { readFile } from "node:fs/promises";
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import type { PolicyList, WhatIfOutcome } from "../src/api/types";
import { MODELS, type Options, World } from "./world";

/** As the real server sends it. */
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES: Record<string, string> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8" };

export const ORDINARY: Options = { gpus: 16, perServer: 8, past: 600, waiting: 24, state: "running", source: "serve", lost: null, length: 3 };

const POLICIES: PolicyList = {
  policies: ["adaptive", "planned", "baseline"].map((name) => ({
    name, about: "a policy", modes: ["offline", "online"], yardstick: false,
    parameters: name === "adaptive" ? [
      { name: "load_factor", help: "How much a load counts.", value: { type: "number", min: 0, max: 10 }, default: 1 },
      { name: "objective", help: "What is made small.", value: { type: "choice", names: ["mean", "p99"] }, default: "mean" },
    ] : [],
  })),
};

export class Mock {
  world: World;
  /** Everybody has to send it, where there is one. */
  token: string | null = null;
  /** As if a proxy stood there and nobody behind it. */
  gone = false;
  /** As if somebody else's what-if were being worked out. */
  simulating = false;
  /** What a what-if waits for before it is answered. */
  simulated: Promise<void> = Promise.resolve();
  private readonly server: Server;

  constructor(private readonly pages: string, options: Partial<Options> = {}) {
    this.world = new World({ ...ORDINARY, ...options });
    this.server = createServer((request, response) => void this.answer(request, response));
  }

  async listen(port = 0): Promise<string> {
    await new Promise<void>((ready) => this.server.listen(port, "127.0.0.1", ready));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://mock");
    const json = (status: number, value: unknown): void => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
    };
    const fault = (status: number, message: string): void => json(status, { error: { message, type: "invalid_request_error", param: null, code: null } });
    if (url.pathname === "/" || url.pathname.startsWith("/dashboard/")) return this.page(url.pathname, response);
    if (this.gone) return fault(502, "nobody is there");
    if (this.token && request.headers.authorization !== `Bearer ${this.token}`) return fault(401, "a token is needed");
    let body = "";
    for await (const chunk of request) body += String(chunk);
    this.world.step();
    if (url.pathname === "/v1/what-if" && this.simulating) return fault(429, "another what-if is being computed; try again in a moment");
    if (url.pathname === "/v1/what-if") await this.simulated;
    const found = this.found(request.method ?? "GET", url, body ? JSON.parse(body) : {});
    if (typeof found === "string") fault(404, found);
    else json(...found);
  }

  private async page(path: string, response: ServerResponse): Promise<void> {
    const name = path === "/" ? "index.html" : path.slice("/dashboard/".length);
    const text = await readFile(join(this.pages, name)).catch(() => null);
    if (text === null) return void response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(name)] ?? "text/plain", "Content-Security-Policy": POLICY }).end(text);
  }

  private found(method: string, url: URL, body: Record<string, unknown>): [number, unknown] | string {
    const { world } = this;
    const number = (name: string, otherwise: number): number => Number(url.searchParams.get(name) ?? otherwise);
    const parts = url.pathname.split("/").slice(2).map(decodeURIComponent);
    switch (`${method} ${parts[0]}`) {
      case "GET overview": return [200, world.overview()];
      case "GET history": return [200, this.history(number("after", 0), Math.min(number("limit", 5000), 5000))];
      case "GET queue": {
        const [from, limit, open] = [number("from", 0), number("limit", 100), world.open()];
        const requests = Array.from({ length: Math.max(0, Math.min(limit, open - from)) }, (_, at) => world.queued(from + at));
        return [200, { open, waiting_nodes: world.options.waiting, by_model: [], requests }];
      }
      case "POST workflows": return this.submit(parts[1] ?? "", body);
      case "GET requests": {
        if (!parts[1]) return [200, { requests: [...world.records.values()].reverse().slice(0, number("limit", 100)) }];
        const record = world.records.get(parts[1]);
        if (!record) return `there is no request \`${parts[1]}\``;
        if (parts[2]) return [record.ended_at === null ? 202 : 200, record];
        return [200, record.ended_at === null ? { ...world.queued(0), request_id: parts[1], status: "open" } : record];
      }
      case "DELETE requests": {
        const record = world.records.get(parts[1] ?? "");
        if (!record) return `there is no request \`${parts[1]}\``;
        Object.assign(record, { status: "cancelled", ended_at: Date.now() / 1000 });
        world.happen("cancelled", world.now(), `${record.request_id} was cancelled`, { request: record.request_id });
        return [200, { request_id: record.request_id, status: "cancelled" }];
      }
      case "GET policies": return [200, POLICIES];
      case "POST what-if": return [200, this.whatIf(Number((body.cluster as { gpus: number }).gpus), String((body.policy as { name: string }).name))];
      default: return "there is no such address";
    }
  }

  private history(after: number, limit: number): unknown {
    const { world } = this;
    const bars = world.bars.filter((bar) => bar.seq > after);
    const happenings = world.happenings.filter((one) => one.seq > after);
    // One sequence for both: what is cut off is cut off at the same place.
    const cut = [...bars, ...happenings].map((one) => one.seq).sort((a, b) => a - b)[limit - 1] ?? Infinity;
    const within = <T extends { seq: number }>(list: T[]): T[] => list.filter((one) => one.seq <= cut);
    return { first: 1, last: world.last, more: world.last > cut, bars: within(bars), ongoing: world.ongoing(), happenings: within(happenings) };
  }

  private submit(workflow: string, body: Record<string, unknown>): [number, unknown] | string {
    const id = String(body.request_id ?? `req-${Math.floor(Math.random() * 1e9).toString(16)}`);
    this.world.inputs.set(id, body.input_data);
    this.world.records.set(id, { request_id: id, workflow_id: workflow, status: "open", why: null, accepted_at: Date.now() / 1000, ended_at: null });
    this.world.happen("accepted", this.world.now(), `${id} was accepted`, { request: id });
    return [202, { request_id: id, status: "accepted", warnings: [] }];
  }

  private whatIf(gpus: number, policy: string): unknown {
    const outcome = (gpus: number, policy: string, pace: number): WhatIfOutcome => {
      const ends = (160 / gpus) * pace;
      const bars = Array.from({ length: gpus * 12 }, (_, at) => {
        const start = (Math.floor(at / gpus) * ends) / 12;
        return { kind: at % 7 === 0 ? ("load" as const) : ("run" as const), gpus: [at % gpus], model: MODELS[(at * 5) % MODELS.length] as string, request: `wait-${at}`, node: "draft", start, end: start + ends / 13 };
      });
      return { policy, gpus, requests: this.world.open(), coming: 0, ends_in: ends, mean: ends / 2, p50: ends / 2.2, p99: ends * 0.98, loads: Math.round(gpus * pace * 2), utilisation: 0.7 / pace, bars };
    };
    return { as_it_is: outcome(this.world.options.gpus, "adaptive", 1), what_if: outcome(gpus, policy, policy === "planned" ? 0.8 : 1), assumed: ["Nothing new arrives.", "Calls take what their estimates say."] };
  }
}
