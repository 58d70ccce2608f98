import { jsonOf } from "./errors.js";
import { Feed } from "./feed.js";
import { Http, newKey } from "./http.js";
import { handleOf, RunHandle } from "./run.js";
const BOARD_POLL_MS = 2500;
/** A Callboard server: start runs, find them again, read threads and agents. */
export class Callboard {
    #http;
    constructor(options = {}) {
        this.#http = new Http(options);
    }
    /** Start a run and return its handle; with `merge` and `steer` that of the run that took the message. */
    async run(agent, input, options = {}) {
        const { threadId, ifBusy, onDisconnect, metadata, priority, version, key = newKey() } = options;
        const body = { agent, input, thread_id: threadId || undefined, metadata, if_busy: ifBusy, on_disconnect: onDisconnect, priority, version };
        return handleOf(this.#http, await this.#http.call("POST", "/v1/runs", { body, key }));
    }
    /** Start a run of a workflow with its input, which fits the workflow's schema, and return its handle. */
    async runWorkflow(workflow, input, options = {}) {
        const { threadId, metadata, priority, key = newKey() } = options;
        const body = { workflow, input, thread_id: threadId || undefined, metadata, priority };
        return handleOf(this.#http, await this.#http.call("POST", "/v1/runs", { body, key }));
    }
    /** Return a handle on a run without asking the server. */
    handle(runId, threadId = "") {
        return new RunHandle(this.#http, runId, threadId);
    }
    /** Return a page of runs, the newest first; `next` is the `before` of the page after it. */
    runs(filter = {}) {
        return this.#http.call("GET", "/v1/runs", { query: { ...filter } });
    }
    /** Count runs; by `code` those that failed, within the last 24 hours unless `since` says otherwise. */
    counts(by, filter = {}) {
        return this.#http.call("GET", "/v1/runs/counts", { query: { by, ...filter } });
    }
    /** Return the workers that gave a sign of life within an hour. */
    workers() {
        return this.#http.call("GET", "/v1/workers");
    }
    /** Return the queues in which runs wait, those with the most first. */
    queues() {
        return this.#http.call("GET", "/v1/queues");
    }
    /** Return the observers that tail the log; with a `name` that one, with its failed deliveries. */
    observers(query = {}) {
        return this.#http.call("GET", "/v1/observers", { query: { ...query } });
    }
    /** Return what was counted in the last day at most, in rows of a minute, or of `step`. */
    metrics(query = {}) {
        return this.#http.call("GET", "/v1/metrics", { query: { ...query } });
    }
    /** Return what the server's checks of its database, Redis, queues and workers say; for its operators. */
    doctor() {
        return this.#http.call("GET", "/v1/doctor");
    }
    /** Return one run as it is now. */
    getRun(runId) {
        return this.handle(runId).get();
    }
    /** Return a page of the questions that you may answer, over all runs, the newest first: open ones, unless `state` says otherwise. */
    approvals(query = {}) {
        return this.#http.call("GET", "/v1/approvals", { query: { ...query } });
    }
    /** Return a page of threads, the last used one first; `search`: with this in their title or messages. */
    threads(query = {}) {
        return this.#http.call("GET", "/v1/threads", { query: { ...query } });
    }
    /** Return one thread with its runs. */
    getThread(threadId, { owner } = {}) {
        return this.#http.call("GET", threadPath(threadId), { query: { owner } });
    }
    /** Return every message of a thread, in reading order. */
    async messages(threadId, { owner } = {}) {
        const found = [];
        let after;
        do {
            const query = { limit: 500, after, owner };
            const page = await this.#http.call("GET", `${threadPath(threadId)}/messages`, { query });
            found.push(...page.messages);
            after = page.next;
        } while (after);
        return found;
    }
    /** Return a page of what models are given in place of a thread's old messages, the newest first. */
    summaries(threadId, query = {}) {
        return this.#http.call("GET", `${threadPath(threadId)}/summaries`, { query: { ...query } });
    }
    /** Delete a thread with its messages and runs. */
    async removeThread(threadId, { owner } = {}) {
        await this.#http.call("DELETE", threadPath(threadId), { query: { owner } });
    }
    /** Return a thread that begins with copies of this one's messages, up to the `message` of this number. */
    forkThread(threadId, message, { newThreadId } = {}) {
        return this.#http.call("POST", `${threadPath(threadId)}/fork`, { body: { message, thread_id: newThreadId } });
    }
    /** Return a page of the messages that wait in a thread, the next one first. */
    queue(threadId, query = {}) {
        return this.#http.call("GET", `${threadPath(threadId)}/queue`, { query: { ...query } });
    }
    /** Give a message that waits another text or place (`now`: also stop the run that the thread is at); 409 `message_taken` if its run has begun. */
    editQueued(threadId, runId, change) {
        return this.#http.call("PATCH", queuePath(threadId, runId), { body: change });
    }
    /** Take a message that waits out of its thread: its run is cancelled, and no model gets it. */
    async removeQueued(threadId, runId) {
        await this.#http.call("DELETE", queuePath(threadId, runId));
    }
    /** Return a feed of the board: a snapshot of its runs and counts, then each change; start() opens it. */
    board(handlers) {
        let next = 0;
        return new Feed({
            url: () => this.#http.url("/v1/events"),
            poll: async () => {
                await new Promise((resolve) => setTimeout(resolve, next - Date.now()));
                next = Date.now() + BOARD_POLL_MS;
                const data = await this.#http.call("GET", "/v1/events");
                return { events: [{ id: "", event: "snapshot", data }], ended: false };
            },
            headers: () => this.#http.headers(),
            ...handlers,
        });
    }
    /** Return what the server says about itself; a sick server answers 503 with the same body. */
    async health() {
        return ((await jsonOf(await this.#http.send("GET", "/health"))) ?? { status: "unknown" });
    }
    /** Return the agents that can be asked, and the problems of definitions that cannot be used. */
    agents() {
        return this.#http.call("GET", "/v1/agents");
    }
    /** Return the workflows that can be started, and the problems of definitions that cannot be used. */
    workflows() {
        return this.#http.call("GET", "/v1/workflows");
    }
    /** Return a workflow with its nodes and edges; `digest`: as a run with this `definition` has it. */
    getWorkflow(workflowId, { digest } = {}) {
        return this.#http.call("GET", `/v1/workflows/${encodeURIComponent(workflowId)}`, { query: { digest } });
    }
}
function threadPath(threadId) {
    return `/v1/threads/${encodeURIComponent(threadId)}`;
}
function queuePath(threadId, runId) {
    return `${threadPath(threadId)}/queue/${encodeURIComponent(runId)}`;
}
