import { jsonOf } from "./errors.js";
import { Feed, type FeedHandlers, type FeedPage } from "./feed.js";
import { Http, newKey, type HttpOptions } from "./http.js";
import { handleOf, RunHandle } from "./run.js";
import type { Agents, BoardEvent, BoardSnapshot, ControlledRun, DoctorReport, ForkedThread, Health, Message, Messages, MetricRows, Observers, OpenApprovals, Priority, Queue, Queues, Run, RunCounts, Runs, Summaries, Thread, Threads, Workers, Workflow, Workflows } from "./types.js";

const BOARD_POLL_MS = 2500;

export interface StartOptions {
  /** Your own name for the conversation; it is created when it is new. */
  threadId?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** What becomes of the message where the conversation has an open run; left out: what the agent's definition says. */
  ifBusy?: "enqueue" | "reject" | "interrupt" | "rollback" | "merge" | "steer" | undefined;
  /** What becomes of the run after so many seconds without viewers: `stop:30`, `pause:30`, or `continue`. */
  onDisconnect?: string | undefined;
  /** Before which queued runs it begins. */
  priority?: Priority | undefined;
  /** The version of the agent, in place of the one that serves; for operators and administrators. */
  version?: number | undefined;
  /** The Idempotency-Key; one is made where it is left out. */
  key?: string | undefined;
}

export type WorkflowOptions = Omit<StartOptions, "ifBusy" | "onDisconnect" | "version">;

/** Which runs: those that fit every field. */
export interface RunFilter {
  /** A state; `open`: all that have not ended. */
  status?: string;
  agent?: string;
  thread_id?: string;
  /** Only runs of this principal. */
  owner?: string;
  trace_id?: string;
  correlation_id?: string;
  /** Accepted then or later: a time (RFC 3339), or a length back from now, `1h`; with `code` ended then or later. */
  since?: string;
  until?: string;
  /** Words of the title; or the beginning of an id, or its end from six characters on. */
  q?: string;
  /** Failed with this code; `any`: failed. */
  code?: string;
  queue?: string;
  kind?: "agent" | "tool" | "workflow";
  model?: string;
  /** Has called this tool. */
  tool?: string;
}

export interface RunQuery extends RunFilter {
  sort?: "newest" | "oldest" | "longest" | "dearest";
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

  /** Start a run and return its handle; with `merge` and `steer` that of the run that took the message. */
  async run(agent: string, input: string, options: StartOptions = {}): Promise<RunHandle> {
    const { threadId, ifBusy, onDisconnect, metadata, priority, version, key = newKey() } = options;
    const body = { agent, input, thread_id: threadId || undefined, metadata, if_busy: ifBusy, on_disconnect: onDisconnect, priority, version };
    return handleOf(this.#http, await this.#http.call("POST", "/v1/runs", { body, key }));
  }

  /** Start a run of a workflow with its input, which fits the workflow's schema, and return its handle. */
  async runWorkflow(workflow: string, input: Record<string, unknown>, options: WorkflowOptions = {}): Promise<RunHandle> {
    const { threadId, metadata, priority, key = newKey() } = options;
    const body = { workflow, input, thread_id: threadId || undefined, metadata, priority };
    return handleOf(this.#http, await this.#http.call("POST", "/v1/runs", { body, key }));
  }

  /** Return a handle on a run without asking the server. */
  handle(runId: string, threadId = ""): RunHandle {
    return new RunHandle(this.#http, runId, threadId);
  }

  /** Return a page of runs, the newest first; `next` is the `before` of the page after it. */
  runs(filter: RunQuery = {}): Promise<Runs> {
    return this.#http.call("GET", "/v1/runs", { query: { ...filter } });
  }

  /** Count runs; by `code` those that failed, within the last 24 hours unless `since` says otherwise. */
  counts(by: RunCounts["by"], filter: RunFilter = {}): Promise<RunCounts> {
    return this.#http.call("GET", "/v1/runs/counts", { query: { by, ...filter } });
  }

  /** Return the workers that gave a sign of life within an hour. */
  workers(): Promise<Workers> {
    return this.#http.call("GET", "/v1/workers");
  }

  /** Return the queues in which runs wait, those with the most first. */
  queues(): Promise<Queues> {
    return this.#http.call("GET", "/v1/queues");
  }

  /** Return the observers that tail the log; with a `name` that one, with its failed deliveries. */
  observers(query: { name?: string } = {}): Promise<Observers> {
    return this.#http.call("GET", "/v1/observers", { query: { ...query } });
  }

  /** Return what was counted in the last day at most, in rows of a minute, or of `step`. */
  metrics(query: { since?: string; step?: "1m" | "5m" | "15m" | "1h" } = {}): Promise<MetricRows> {
    return this.#http.call("GET", "/v1/metrics", { query: { ...query } });
  }

  /** Return what the server's checks of its database, Redis, queues and workers say; for its operators. */
  doctor(): Promise<DoctorReport> {
    return this.#http.call("GET", "/v1/doctor");
  }

  /** Return one run as it is now. */
  getRun(runId: string): Promise<Run> {
    return this.handle(runId).get();
  }

  /** Return a page of the questions that you may answer, over all runs, the newest first: open ones, unless `state` says otherwise. */
  approvals(query: { state?: "open" | "answered" | "holding"; limit?: number; before?: string } = {}): Promise<OpenApprovals> {
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

  /** Return a thread that begins with copies of this one's messages, up to the `message` of this number. */
  forkThread(threadId: string, message: number, { newThreadId }: { newThreadId?: string } = {}): Promise<ForkedThread> {
    return this.#http.call("POST", `${threadPath(threadId)}/fork`, { body: { message, thread_id: newThreadId } });
  }

  /** Return a page of the messages that wait in a thread, the next one first. */
  queue(threadId: string, query: ThreadOptions & { limit?: number; after?: string } = {}): Promise<Queue> {
    return this.#http.call("GET", `${threadPath(threadId)}/queue`, { query: { ...query } });
  }

  /** Give a message that waits another text or place (`now`: also stop the run that the thread is at); 409 `message_taken` if its run has begun. */
  editQueued(threadId: string, runId: string, change: { content?: string; place?: "first" | "now" }): Promise<ControlledRun> {
    return this.#http.call("PATCH", queuePath(threadId, runId), { body: change });
  }

  /** Take a message that waits out of its thread: its run is cancelled, and no model gets it. */
  async removeQueued(threadId: string, runId: string): Promise<void> {
    await this.#http.call("DELETE", queuePath(threadId, runId));
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

  /** Return the workflows that can be started, and the problems of definitions that cannot be used. */
  workflows(): Promise<Workflows> {
    return this.#http.call("GET", "/v1/workflows");
  }

  /** Return a workflow with its nodes and edges; `digest`: as a run with this `definition` has it. */
  getWorkflow(workflowId: string, { digest }: { digest?: string | undefined } = {}): Promise<Workflow> {
    return this.#http.call("GET", `/v1/workflows/${encodeURIComponent(workflowId)}`, { query: { digest } });
  }
}

function threadPath(threadId: string): string {
  return `/v1/threads/${encodeURIComponent(threadId)}`;
}

function queuePath(threadId: string, runId: string): string {
  return `${threadPath(threadId)}/queue/${encodeURIComponent(runId)}`;
}
