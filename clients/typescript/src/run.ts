import type { ApiError } from "./errors.js";
import { Feed, type FeedHandlers, type FeedPage } from "./feed.js";
import { newKey, type Http } from "./http.js";
import type { AcceptedRun, Approval, ControlledRun, Decided, Decisions, EndEvent, Events, Priority, Run, RunEvent, Steps } from "./types.js";

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

export interface ControlOptions {
  /** The only status of the run in which it is to be done; another one is refused with 409 `control_refused`. */
  expectedStatus?: string | undefined;
  /** The Idempotency-Key; one is made where it is left out. */
  key?: string | undefined;
}

export interface RepeatOptions {
  /** `live`: calls that were recorded are made again, as far as the policy and persons allow it; left out: `recorded`. */
  mode?: "recorded" | "live" | undefined;
  /** The Idempotency-Key; one is made where it is left out. */
  key?: string | undefined;
}

export interface RetryOptions extends RepeatOptions {
  /** Of a workflow: whether only the failed items of FOR_EACH are made again, with what follows from them. */
  failedItems?: boolean | undefined;
}

/** A run: follow its events, wait for its end, answer its questions, control and repeat it. It holds no connection. */
export class RunHandle {
  readonly runId: string;
  readonly threadId: string;
  /** `merged` or `steered` where this run, which was there before, took the message that was sent. */
  readonly delivered: AcceptedRun["delivered"];
  /** With `steered`: a `control` event of the run with this id says when its model gets the message. */
  readonly controlId: AcceptedRun["control_id"];
  readonly #http: Http;

  constructor(http: Http, runId: string, threadId: string, { delivered, control_id }: Partial<AcceptedRun> = {}) {
    this.#http = http;
    this.runId = runId;
    this.threadId = threadId;
    this.delivered = delivered;
    this.controlId = control_id;
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
  cancel(options?: ControlOptions): Promise<ControlledRun> {
    return this.#control("cancel", {}, options);
  }

  /** Give the open run a text, which its model gets between two steps; `control` events say when. */
  steer(text: string, options?: ControlOptions): Promise<ControlledRun> {
    return this.#control("steer", { content: text }, options);
  }

  /** Leave the run between two steps without a worker, until `resume`. */
  pause(options?: ControlOptions): Promise<ControlledRun> {
    return this.#control("pause", {}, options);
  }

  /** Continue the paused run, or take back a pause that its worker has not come to. */
  resume(options?: ControlOptions): Promise<ControlledRun> {
    return this.#control("resume", {}, options);
  }

  /** Change how many rounds with tools the open run may have, or its priority. */
  set(limits: { maxIterations?: number; priority?: Priority }, options?: ControlOptions): Promise<ControlledRun> {
    return this.#control("set", { max_iterations: limits.maxIterations, priority: limits.priority }, options);
  }

  /** Give the open workflow the signal that one of its nodes waits for, or will; each name is given once. */
  signal(name: string, data?: unknown, { key = newKey() }: { key?: string } = {}): Promise<ControlledRun> {
    return this.#http.call("POST", `${this.#path}/signals/${encodeURIComponent(name)}`, { body: data, key });
  }

  /**
   * Return a page of the run's steps in the order in which they began; `next` is the `after` of the page after it.
   *
   * `node`: only those of the node with this path, `items/17/charge`. `under`: only the items of the FOR_EACH with this
   * path that are at their end, those that have failed first.
   */
  steps(query: { node?: string; under?: string; spans?: 0 | 1; limit?: number; after?: string } = {}): Promise<Steps> {
    return this.#http.call("GET", `${this.#path}/steps`, { query: { ...query } });
  }

  /** Retry the run, which did not succeed; returns a handle on the new one, the next run of its thread. */
  retry(options: RetryOptions = {}): Promise<RunHandle> {
    return this.#repeat("retry", { failed_items: options.failedItems }, options);
  }

  /** Repeat the ended run from a step on, in a fork of its thread; returns a handle on the new run. */
  rerun(fromStep: number, options?: RepeatOptions): Promise<RunHandle> {
    return this.#repeat("rerun", { from_step: fromStep }, options);
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

  #control(verb: string, fields: object, { expectedStatus, key = newKey() }: ControlOptions = {}): Promise<ControlledRun> {
    return this.#http.call("POST", `${this.#path}/${verb}`, { body: { ...fields, expected_status: expectedStatus }, key });
  }

  async #repeat(verb: string, fields: object, { mode, key = newKey() }: RepeatOptions = {}): Promise<RunHandle> {
    return handleOf(this.#http, await this.#http.call("POST", `${this.#path}/${verb}`, { body: { ...fields, mode }, key }));
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

/** Return a handle on a run that the server accepted. */
export function handleOf(http: Http, accepted: AcceptedRun): RunHandle {
  return new RunHandle(http, accepted.run_id, accepted.thread_id, accepted);
}
