import { ApiError, errorFrom, jsonOf, unreachable } from "./errors.js";

const TIMEOUT_MS = 30_000;
const ATTEMPTS = 4;
const BACKOFF_MS = 300;

export interface HttpOptions {
  /** Address of the server, as `https://callboard.example`; empty: the page's own. */
  baseUrl?: string;
  /** An API key. Leave it out on pages that a session cookie signs in. */
  apiKey?: string;
  /** Additional headers of each request, asked for each time. */
  headers?: () => Record<string, string>;
  /** How often a request that may be repeated is sent at most; 1: once. */
  attempts?: number;
}

export interface CallOptions {
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  /** The Idempotency-Key: repeated requests with it happen once. */
  key?: string;
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** Sends requests with the credential, and repeats those that may be repeated while the server is away. */
export class Http {
  readonly #baseUrl: string;
  readonly #options: HttpOptions;

  constructor(options: HttpOptions = {}) {
    const baseUrl = options.baseUrl ?? "";
    if (baseUrl && !/^https?:\/\/[^@]+$/.test(baseUrl)) {
      throw new TypeError("baseUrl has to begin with http:// or https://, as http://127.0.0.1:8000, and has no password; use apiKey.");
    }
    if (baseUrl && !/^https?:\/\/[^/?#]+\/?$/.test(baseUrl)) {
      throw new TypeError("baseUrl has a path, a query or a fragment, and Callboard has a host of its own: write the address without it.");
    }
    if (options.apiKey !== undefined && !/^[!-~]+$/.test(options.apiKey)) {
      throw new TypeError("apiKey has to be one or more printable ASCII characters without spaces or line ends.");
    }
    this.#baseUrl = baseUrl.endsWith("/") ? baseUrl.slice(0, -1) : baseUrl;
    this.#options = options;
  }

  /** Return the address of a path on this server. */
  url(path: string, query: CallOptions["query"] = {}): string {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
    return `${this.#baseUrl}${path}${search && `?${search}`}`;
  }

  /** Return the headers that carry the credential. */
  headers(): Record<string, string> {
    const { apiKey, headers } = this.#options;
    return { ...(apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }), ...headers?.() };
  }

  /** Send a request once and return the response, whatever its status. */
  async send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
    const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
    const init: RequestInit = { method, cache: "no-store", headers: { Accept: "application/json", ...this.headers() } };
    init.signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
    const headers = init.headers as Record<string, string>;
    if (options.key !== undefined) headers["Idempotency-Key"] = options.key;
    if (options.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(options.body);
    }
    try {
      return await fetch(this.url(path, options.query), init);
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw unreachable(this.#baseUrl, error);
    }
  }

  /** Return the JSON of an answer; a GET, and what has a key, is tried again where that may succeed. */
  async call<Answer>(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const isRepeatable = method === "GET" || options.key !== undefined;
    const attempts = isRepeatable ? (this.#options.attempts ?? ATTEMPTS) : 1;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await this.send(method, path, options);
        if (!response.ok) throw await errorFrom(response);
        return ((await jsonOf(response)) ?? {}) as Answer;
      } catch (error) {
        if (!(error instanceof ApiError) || !error.retryable || attempt >= attempts) throw error;
        await pause(Math.max(error.retryAfterMs, BACKOFF_MS * 2 ** attempt * (0.5 + Math.random())), options.signal);
      }
    }
  }
}

/** Return a key that no other page makes. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}
