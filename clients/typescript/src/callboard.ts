import { jsonOf } from "./errors.js";
import { Feed, type FeedHandlers, type FeedPage } from "./feed.js";
import { Http, newKey, type HttpOptions } from "./http.js";
import { RunHandle } from "./run.js";
import type { AcceptedRun, Agents, BoardEvent, BoardSnapshot, Health, Message, Messages, OpenApprovals, Run, Runs, Summaries, Thread, Threads } from "./types.js";

const BOARD_POLL_MS = 2500;

export interface StartOptions {
  /** Your own name for the conversation; it is created when it is new. */
  threadId?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** The Idempotency-Key; one is made where it is left out. */
  key?: string | undefined;
}

export interface RunFilter {
  status?: string;
  agent?: string;
  thread_id?: string;
  /** Only runs of this principal. */
  owner?: string;
  limit?: number;
  before?: string;
}

export interface ThreadOptions {
  /** The principal whose thread is meant; left out: the caller's own. */
  owner?: string | undefined;
}

/** A Callboard server: start runs, find them again, read threads and agents. */
export class Callboard {
  readonly #http: Http;

  constructor(options: HttpOptions = {}) {
    this.#http = new Http(options);
  }

  /** Start a run and return its handle. */
  async run(agent: string, input: string, { threadId, metadata, key = newKey() }: StartOptions = {}): Promise<RunHandle> {
    const body = { agent, input, ...(threadId ? { thread_id: threadId } : {}), ...(metadata ? { metadata } : {}) };
    const accepted = await this.#http.call<AcceptedRun>("POST", "/v1/runs", { body, key });
    return this.handle(accepted.run_id, accepted.thread_id);
  }

  /** Return a handle on a run without asking the server. */
  handle(runId: string, threadId = ""): RunHandle {
    return new RunHandle(this.#http, runId, threadId);
  }

  /** Return a page of runs, the newest first; `next` is the `before` of the page after it. */
  runs(filter: RunFilter = {}): Promise<Runs> {
    return this.#http.call("GET", "/v1/runs", { query: { ...filter } });
  }

  /** Return one run as it is now. */
  getRun(runId: string): Promise<Run> {
    return this.handle(runId).get();
  }

  /** Return a page of the open questions that you may answer, over all runs, the newest first. */
  approvals(query: { limit?: number; before?: string } = {}): Promise<OpenApprovals> {
    return this.#http.call("GET", "/v1/approvals", { query: { ...query } });
  }

  /** Return a page of threads, the last used one first; `search`: with this in their title or messages. */
  threads(query: ThreadOptions & { search?: string; limit?: number; before?: string } = {}): Promise<Threads> {
    return this.#http.call("GET", "/v1/threads", { query: { ...query } });
  }

  /** Return one thread with its runs. */
  getThread(threadId: string, { owner }: ThreadOptions = {}): Promise<Thread> {
    return this.#http.call("GET", threadPath(threadId), { query: { owner } });
  }

  /** Return every message of a thread, in reading order. */
  async messages(threadId: string, { owner }: ThreadOptions = {}): Promise<Message[]> {
    const found: Message[] = [];
    let after: string | undefined;
    do {
      const query = { limit: 500, after, owner };
      const page: Messages = await this.#http.call("GET", `${threadPath(threadId)}/messages`, { query });
      found.push(...page.messages);
      after = page.next;
    } while (after);
    return found;
  }

  /** Return a page of what models are given in place of a thread's old messages, the newest first. */
  summaries(threadId: string, query: ThreadOptions & { limit?: number; before?: string } = {}): Promise<Summaries> {
    return this.#http.call("GET", `${threadPath(threadId)}/summaries`, { query: { ...query } });
  }

  /** Delete a thread with its messages and runs. */
  async removeThread(threadId: string, { owner }: ThreadOptions = {}): Promise<void> {
    await this.#http.call("DELETE", threadPath(threadId), { query: { owner } });
  }

  /** Return a feed of the board: a snapshot of its runs and counts, then each change; start() opens it. */
  board(handlers: FeedHandlers<BoardEvent>): Feed {
    let next = 0;
    return new Feed({
      url: () => this.#http.url("/v1/events"),
      poll: async () => {
        await new Promise((resolve) => setTimeout(resolve, next - Date.now()));
        next = Date.now() + BOARD_POLL_MS;
        const data: BoardSnapshot = await this.#http.call("GET", "/v1/events");
        return { events: [{ id: "", event: "snapshot", data }], ended: false };
      },
      headers: () => this.#http.headers(),
      ...handlers,
    });
  }

  /** Return what the server says about itself; a sick server answers 503 with the same body. */
  async health(): Promise<Health> {
    return ((await jsonOf(await this.#http.send("GET", "/health"))) ?? { status: "unknown" }) as Health;
  }

  /** Return the agents that can be asked, and the problems of definitions that cannot be used. */
  agents(): Promise<Agents> {
    return this.#http.call("GET", "/v1/agents");
  }
}

function threadPath(threadId: string): string {
  return `/v1/threads/${encodeURIComponent(threadId)}`;
}
