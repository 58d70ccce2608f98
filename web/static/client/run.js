import { Feed } from "./feed.js";
import { newKey } from "./http.js";
const POLL_S = 20;
/** A run: follow its events, wait for its end, answer its questions, control and repeat it. It holds no connection. */
export class RunHandle {
    runId;
    threadId;
    /** `merged` or `steered` where this run, which was there before, took the message that was sent. */
    delivered;
    /** With `steered`: a `control` event of the run with this id says when its model gets the message. */
    controlId;
    #http;
    constructor(http, runId, threadId, { delivered, control_id } = {}) {
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
    async *events({ after = 0, signal } = {}) {
        const arrived = [];
        let outcome;
        let wake = () => { };
        const feed = this.feed({
            cursor: after ? String(after) : "",
            onEvent: ({ data }) => {
                arrived.push(data);
                wake();
            },
            onState: ({ name, error }) => {
                if (name === "refused" || name === "ended")
                    outcome = error ?? "over";
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
                    if (event.type === "end")
                        return;
                }
                signal?.throwIfAborted();
                if (outcome === "over")
                    return;
                if (outcome)
                    throw outcome;
                await new Promise((resolve) => (wake = resolve));
            }
        }
        finally {
            signal?.removeEventListener("abort", stop);
            feed.stop();
        }
    }
    /** Return a feed of the run's events for a page, which shows the connection's state; start() opens it. */
    feed(options) {
        return new Feed({
            url: (cursor) => this.#http.url(`${this.#path}/events`, { after: cursor }),
            poll: (cursor) => this.#poll(cursor),
            headers: () => this.#http.headers(),
            ...options,
        });
    }
    /** Wait for the run's end and return it; its `status` is succeeded, failed, cancelled or dead. */
    async result({ signal } = {}) {
        for await (const event of this.events(signal ? { signal } : {})) {
            if (event.type === "end")
                return event;
        }
        throw new Error(`run ${this.runId} ended without an end event`);
    }
    /** Return the run as it is now. */
    get() {
        return this.#http.call("GET", this.#path);
    }
    /** Return a page of the events after a cursor; with `waitS` it waits that long for the first of them. */
    page(after = 0, waitS) {
        return this.#http.call("GET", `${this.#path}/events`, { query: { after, wait_s: waitS } });
    }
    /** Ask the run to stop; asking twice is harmless. */
    cancel(options) {
        return this.#control("cancel", {}, options);
    }
    /** Give the open run a text, which its model gets between two steps; `control` events say when. */
    steer(text, options) {
        return this.#control("steer", { content: text }, options);
    }
    /** Leave the run between two steps without a worker, until `resume`. */
    pause(options) {
        return this.#control("pause", {}, options);
    }
    /** Continue the paused run, or take back a pause that its worker has not come to. */
    resume(options) {
        return this.#control("resume", {}, options);
    }
    /** Change how many rounds with tools the open run may have, or its priority. */
    set(limits, options) {
        return this.#control("set", { max_iterations: limits.maxIterations, priority: limits.priority }, options);
    }
    /** Give the open workflow the signal that one of its nodes waits for, or will; each name is given once. */
    signal(name, data, { key = newKey() } = {}) {
        return this.#http.call("POST", `${this.#path}/signals/${encodeURIComponent(name)}`, { body: data, key });
    }
    /**
     * Return a page of the run's steps in the order in which they began; `next` is the `after` of the page after it.
     *
     * `node`: only those of the node with this path, `items/17/charge`. `under`: only the items of the FOR_EACH with this
     * path that are at their end, those that have failed first.
     */
    steps(query = {}) {
        return this.#http.call("GET", `${this.#path}/steps`, { query: { ...query } });
    }
    /** Retry the run, which did not succeed; returns a handle on the new one, the next run of its thread. */
    retry(options = {}) {
        return this.#repeat("retry", { failed_items: options.failedItems }, options);
    }
    /** Repeat the ended run from a step on, in a fork of its thread; returns a handle on the new run. */
    rerun(fromStep, options) {
        return this.#repeat("rerun", { from_step: fromStep }, options);
    }
    /** Return the run's open questions, the oldest first. */
    async approvals() {
        const { approvals } = await this.#http.call("GET", `${this.#path}/approvals`);
        return approvals;
    }
    /** Return a page of what the policy decided about the run's calls, in order; `next` is the next page's `after`. */
    decisions({ after = 0, limit } = {}) {
        return this.#http.call("GET", `${this.#path}/decisions`, { query: { after, limit } });
    }
    /** Answer a question; the first answer counts, a later one is refused with 409 `approval_decided`. */
    decide(approvalId, answer, { key = newKey() } = {}) {
        const path = `${this.#path}/approvals/${encodeURIComponent(approvalId)}`;
        return this.#http.call("POST", path, { body: answer, key });
    }
    /** Delete the ended run; its thread keeps the messages. */
    async remove() {
        await this.#http.call("DELETE", this.#path);
    }
    #control(verb, fields, { expectedStatus, key = newKey() } = {}) {
        return this.#http.call("POST", `${this.#path}/${verb}`, { body: { ...fields, expected_status: expectedStatus }, key });
    }
    async #repeat(verb, fields, { mode, key = newKey() } = {}) {
        return handleOf(this.#http, await this.#http.call("POST", `${this.#path}/${verb}`, { body: { ...fields, mode }, key }));
    }
    get #path() {
        return `/v1/runs/${encodeURIComponent(this.runId)}`;
    }
    async #poll(cursor) {
        const { events, ended } = await this.page(cursor || 0, POLL_S);
        const found = events.map((data) => ({ id: String(data.seq), event: data.type, data }));
        return { events: found, ended: ended && !found.length };
    }
}
/** Return a handle on a run that the server accepted. */
export function handleOf(http, accepted) {
    return new RunHandle(http, accepted.run_id, accepted.thread_id, accepted);
}
