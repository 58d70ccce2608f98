import { ApiError, errorFrom, jsonOf, unreachable } from "./errors.js";
const TIMEOUT_MS = 30_000;
const ATTEMPTS = 4;
const BACKOFF_MS = 300;
/** Sends requests with the credential, and repeats those that may be repeated while the server is away. */
export class Http {
    #baseUrl;
    #options;
    constructor(options = {}) {
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
    url(path, query = {}) {
        const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
        const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
        return `${this.#baseUrl}${path}${search && `?${search}`}`;
    }
    /** Return the headers that carry the credential. */
    headers() {
        const { apiKey, headers } = this.#options;
        return { ...(apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }), ...headers?.() };
    }
    /** Send a request once and return the response, whatever its status. */
    async send(method, path, options = {}) {
        const timeout = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
        const init = { method, cache: "no-store", headers: { Accept: "application/json", ...this.headers() } };
        init.signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
        const headers = init.headers;
        if (options.key !== undefined)
            headers["Idempotency-Key"] = options.key;
        if (options.body !== undefined) {
            headers["Content-Type"] = "application/json";
            init.body = JSON.stringify(options.body);
        }
        try {
            return await fetch(this.url(path, options.query), init);
        }
        catch (error) {
            if (options.signal?.aborted)
                throw error;
            throw unreachable(this.#baseUrl, error);
        }
    }
    /** Return the JSON of an answer; a GET, and what has a key, is tried again where that may succeed. */
    async call(method, path, options = {}) {
        const isRepeatable = method === "GET" || options.key !== undefined;
        const attempts = isRepeatable ? (this.#options.attempts ?? ATTEMPTS) : 1;
        for (let attempt = 1;; attempt += 1) {
            try {
                const response = await this.send(method, path, options);
                if (!response.ok)
                    throw await errorFrom(response);
                return ((await jsonOf(response)) ?? {});
            }
            catch (error) {
                if (!(error instanceof ApiError) || !error.retryable || attempt >= attempts)
                    throw error;
                await pause(Math.max(error.retryAfterMs, BACKOFF_MS * 2 ** attempt * (0.5 + Math.random())), options.signal);
            }
        }
    }
}
/** Return a key that no other page makes. */
export function newKey() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, ms);
        signal?.addEventListener("abort", () => {
            clearTimeout(timer);
            reject(signal.reason);
        });
    });
}
