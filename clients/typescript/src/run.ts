import type { ApiError } from "./errors.js";
import { Feed, type FeedHandlers, type FeedPage } from "./feed.js";
import { newKey, type Http } from "./http.js";
import type { Approval, ControlledRun, Decided, Decisions, EndEvent, Events, Run, RunEvent } from "./types.js";

const POLL_S = 20;

export interface Answer {
  decision: string;
  /** The call's arguments, where they are changed. */
  arguments?: Record<string, unknown>;
  /** With `take_as_done`: what the call returned; with `answer`: the filled-in form. */
  result?: unknown;
  /** The question's digest, as it was shown; the answer is refused where it is another one. */
  digest?: string;
  /** With `approve`: for which later calls of the tool it holds too, of the question's `scopes`. */
  scope?: "thread" | "tool";
  /** With `scope`: for how many seconds; absent: for as long as the question allows. */
  scope_s?: number;
  /** A note that the log keeps. */
  message?: string;
}

/** A run: follow its events, wait for its end, answer its questions, stop it. It holds no connection. */
export class RunHandle {
  readonly runId: string;
  readonly threadId: string;
  readonly #http: Http;

  constructor(http: Http, runId: string, threadId: string) {
    this.#http = http;
    this.runId = runId;
    this.threadId = threadId;
  }

  /**
   * Yield the run's events after a cursor, in order and each once, as they happen, up to its `end`.
   *
   * Cuts of the connection and restarts of the server are not noticed. Throws an `ApiError` where the server refuses.
   */
  async *events({ after = 0, signal }: { after?: number; signal?: AbortSignal } = {}): AsyncGenerator<RunEvent, void> {
    const arrived: RunEvent[] = [];
    let outcome: ApiError | "over" | undefined;
    let wake = () => {};
    const feed = this.feed({
      cursor: after ? String(after) : "",
      onEvent: ({ data }) => {
        arrived.push(data);
        wake();
      },
      onState: ({ name, error }) => {
        if (name === "refused" || name === "ended") outcome = error ?? "over";
        wake();
      },
    });
    const stop = () => wake();
    signal?.addEventListener("abort", stop);
    feed.start();
    try {
      for (;;) {
        for (let event = arrived.shift(); event; event = arrived.shift()) {
          signal?.throwIfAborted();
          yield event;
          if (event.type === "end") return;
        }
        signal?.throwIfAborted();
        if (outcome === "over") return;
        if (outcome) throw outcome;
        await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      feed.stop();
    }
  }

  /** Return a feed of the run's events for a page, which shows the connection's state; start() opens it. */
  feed(options: FeedHandlers<RunEvent>): Feed {
    return new Feed({
      url: (cursor) => this.#http.url(`${this.#path}/events`, { after: cursor }),
      poll: (cursor) => this.#poll(cursor),
      headers: () => this.#http.headers(),
      ...options,
    });
  }

  /** Wait for the run's end and return it; its `status` is succeeded, failed, cancelled or dead. */
  async result({ signal }: { signal?: AbortSignal } = {}): Promise<EndEvent> {
    for await (const event of this.events(signal ? { signal } : {})) {
      if (event.type === "end") return event as EndEvent;
    }
    throw new Error(`run ${this.runId} ended without an end event`);
  }

  /** Return the run as it is now. */
  get(): Promise<Run> {
    return this.#http.call("GET", this.#path);
  }

  /** Return a page of the events after a cursor; with `waitS` it waits that long for the first of them. */
  page(after: string | number = 0, waitS?: number): Promise<Events> {
    return this.#http.call("GET", `${this.#path}/events`, { query: { after, wait_s: waitS } });
  }

  /** Ask the run to stop; asking twice is harmless. */
  cancel({ key = newKey() }: { key?: string } = {}): Promise<ControlledRun> {
    return this.#http.call("POST", `${this.#path}/cancel`, { body: {}, key });
  }

  /** Return the run's open questions, the oldest first. */
  async approvals(): Promise<Approval[]> {
    const { approvals } = await this.#http.call<{ approvals: Approval[] }>("GET", `${this.#path}/approvals`);
    return approvals;
  }

  /** Return a page of what the policy decided about the run's calls, in order; `next` is the next page's `after`. */
  decisions({ after = 0, limit }: { after?: string | number; limit?: number } = {}): Promise<Decisions> {
    return this.#http.call("GET", `${this.#path}/decisions`, { query: { after, limit } });
  }

  /** Answer a question; the first answer counts, a later one is refused with 409 `approval_decided`. */
  decide(approvalId: string, answer: Answer, { key = newKey() }: { key?: string } = {}): Promise<Decided> {
    const path = `${this.#path}/approvals/${encodeURIComponent(approvalId)}`;
    return this.#http.call("POST", path, { body: answer, key });
  }

  /** Delete the ended run; its thread keeps the messages. */
  async remove(): Promise<void> {
    await this.#http.call("DELETE", this.#path);
  }

  get #path(): string {
    return `/v1/runs/${encodeURIComponent(this.runId)}`;
  }

  async #poll(cursor: string): Promise<FeedPage> {
    const { events, ended } = await this.page(cursor || 0, POLL_S);
    const found = events.map((data) => ({ id: String(data.seq), event: data.type, data }));
    return { events: found, ended: ended && !found.length };
  }
}
