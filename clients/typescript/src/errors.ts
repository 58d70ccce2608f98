/** A refused or unanswered call. `code` is stable; `message` is a sentence for a person; `facts` are the problem's. */
export class ApiError extends Error {
  readonly code: string;
  /** The HTTP status; 0 where the server was not reached. */
  readonly status: number;
  readonly retryAfterMs: number;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(message: string, details: { code?: string; status?: number; retryAfterMs?: number; facts?: object } = {}) {
    super(message);
    this.name = "ApiError";
    this.code = details.code ?? "unknown";
    this.status = details.status ?? 0;
    this.retryAfterMs = details.retryAfterMs ?? 0;
    this.facts = { ...details.facts };
  }

  /** True when the server was not reached at all. */
  get unreachable(): boolean {
    return this.status === 0;
  }

  /** True where the same request may succeed later: as the problem says, else by the status, such as a proxy's. */
  get retryable(): boolean {
    if (typeof this.facts.retryable === "boolean") return this.facts.retryable;
    return this.unreachable || this.status >= 500 || [408, 425, 429].includes(this.status);
  }
}

/** Return the error a response stands for, from its problem+json where it has one. */
export async function errorFrom(response: Response): Promise<ApiError> {
  const problem = ((await jsonOf(response)) ?? {}) as { detail?: string; title?: string; code?: string };
  const message = problem.detail ?? problem.title ?? `The server answered ${response.status} without a reason.`;
  const retryAfterMs = Number(response.headers.get("Retry-After") ?? 0) * 1000 || 0;
  return new ApiError(message, { code: problem.code ?? "http_error", status: response.status, retryAfterMs, facts: problem });
}

/** Return the error for a server that cannot be reached; `reason` is what `fetch` threw, of which Node says more. */
export function unreachable(address = "", reason?: unknown): ApiError {
  const code = (reason as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  const why = typeof code === "string" ? ` (${code})` : "";
  const message = address
    ? `${address} does not answer${why}. Start Callboard there, or correct baseUrl.`
    : "The server does not answer. Is `./callboard up` still running?";
  return new ApiError(message, { code: "server_unreachable" });
}

/** Return a response's JSON, or null where it has none. */
export async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return null;
  }
}
