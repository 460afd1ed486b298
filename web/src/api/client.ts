// Calls of the server that the page came from, with the token where one was given.

/** Why a call was not carried out: the server's own words. */
export class Fault extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** The server does not answer at all. */
export class Unreachable extends Error {}

const TOKEN = "gswarm-token";
/** How long an answer may take, in milliseconds. */
const PATIENCE = 15_000;

/** Kept as long as the tab is open, and no longer: it is a secret. */
export const token = {
  get: (): string | null => sessionStorage.getItem(TOKEN),
  set: (value: string): void => sessionStorage.setItem(TOKEN, value),
  clear: (): void => sessionStorage.removeItem(TOKEN),
};

function headers(body: unknown): Record<string, string> {
  const secret = token.get();
  return {
    Accept: "application/json",
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(secret ? { Authorization: `Bearer ${secret}` } : {}),
  };
}

async function faultOf(response: Response): Promise<Fault> {
  const text = await response.text().catch(() => "");
  try {
    const message: unknown = JSON.parse(text)?.error?.message;
    if (typeof message === "string" && message) return new Fault(response.status, message);
  } catch {
    // Whatever stands between the page and the server may answer without JSON.
  }
  return new Fault(response.status, `the server answered ${response.status} ${response.statusText}`.trim());
}

/** Statuses by which proxies say that nobody is behind them. */
const NOBODY = new Set([502, 504]);

export async function call<T>(method: "GET" | "POST" | "DELETE", path: string, body?: unknown, patience = PATIENCE): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: headers(body),
      cache: "no-store",
      signal: AbortSignal.timeout(patience),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Unreachable(late ? "the server takes too long to answer" : "the server cannot be reached");
  }
  if (!response.ok) {
    if (method === "GET" && NOBODY.has(response.status)) throw new Unreachable("the server behind the proxy does not answer");
    throw await faultOf(response);
  }
  try {
    return (await response.json()) as T;
  } catch {
    throw new Unreachable("the answer was cut off");
  }
}

export const get = <T>(path: string): Promise<T> => call<T>("GET", path);

export const requestPath = (id: string): string => `/v1/requests/${encodeURIComponent(id)}`;

export const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
