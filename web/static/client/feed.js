import { ApiError, errorFrom, unreachable } from "./errors.js";
import { EventStreamParser } from "./sse.js";
// The server sends at least a comment each 15 s; a connection without one for longer than this is dead, even where TCP has not noticed.
const SILENCE_MS = 40_000;
const STALE_AFTER_SLEEP_MS = 18_000;
const BACKOFF_MS = [400, 1000, 2000, 4000, 8000, 15_000];
const BEHIND_MS = 2000;
// The server says something at once; a proxy that holds it back for longer than this holds back everything.
const FIRST_BYTE_MS = 6000;
// One slow answer is no proof of such a proxy.
const STREAM_AGAIN_MS = 60_000;
/** One stream of events that reconnects by itself: it resumes after its cursor and reports its state. */
export class Feed {
    cursor;
    stopped = true;
    /** True where the stream did not come through: pages are polled in its place, and it is tried again each minute. */
    heldBack = false;
    state = { name: "connecting" };
    #options;
    #controller = null;
    #timers = new Set();
    #failures = 0;
    #lastByte = 0;
    #wake = null;
    #quiet;
    #opened = 0;
    #streamAt = 0;
    constructor(options) {
        this.#options = options;
        this.cursor = options.cursor ?? "";
    }
    /** Open the connection and keep it open. */
    start() {
        if (!this.stopped)
            return this;
        this.stopped = false;
        globalThis.addEventListener?.("online", this.hurry);
        globalThis.addEventListener?.("offline", this.drop);
        globalThis.document?.addEventListener("visibilitychange", this.afterSleep);
        this.#every(5000, () => Date.now() - this.#lastByte > SILENCE_MS && this.drop());
        void this.#live();
        return this;
    }
    /** Close the connection; the cursor stays, so start() continues where it was. */
    stop() {
        this.stopped = true;
        globalThis.removeEventListener?.("online", this.hurry);
        globalThis.removeEventListener?.("offline", this.drop);
        globalThis.document?.removeEventListener("visibilitychange", this.afterSleep);
        for (const timer of this.#timers)
            clearInterval(timer);
        this.#timers.clear();
        clearTimeout(this.#quiet);
        this.drop();
        this.hurry();
    }
    /** Try again now instead of after the pause. */
    hurry = () => this.#wake?.();
    /** Give up the present connection; the next one resumes after the cursor. */
    drop = () => this.#controller?.abort();
    afterSleep = () => {
        if (document.hidden)
            return;
        this.hurry();
        if (Date.now() - this.#lastByte > STALE_AFTER_SLEEP_MS)
            this.drop();
    };
    // A poll outlasts stop(): when it returns after another start(), only the later loop continues.
    async #live() {
        const opened = (this.#opened += 1);
        while (!this.stopped) {
            const failure = await (this.#isToPoll() ? this.#poll() : this.#attempt());
            if (this.stopped || opened !== this.#opened)
                return;
            if (failure === "ended")
                return this.#finish({ name: "ended" });
            // A defect of the server may be gone at the next attempt; a stream is for as long as the page is open.
            if (failure instanceof ApiError && !failure.retryable && failure.status < 500)
                return this.#finish({ name: "refused", error: failure });
            if (failure !== "again")
                await this.#pause(failure);
        }
    }
    #isToPoll() {
        if (!this.heldBack)
            return false;
        this.#streamAt ||= Date.now() + STREAM_AGAIN_MS;
        return Date.now() < this.#streamAt;
    }
    async #poll() {
        try {
            const { events, ended } = await this.#options.poll(this.cursor);
            this.#failures = 0;
            this.#lastByte = Date.now();
            this.#current();
            for (const event of events)
                this.#take(event);
            return ended ? "ended" : "again";
        }
        catch (error) {
            return error;
        }
    }
    // Returns a timer that turns to polling when not even the first byte comes.
    #expectFirstByte() {
        return setTimeout(() => {
            this.heldBack = Boolean(this.#options.poll);
            this.drop();
        }, FIRST_BYTE_MS);
    }
    #finish(state) {
        this.stop();
        this.#setState(state);
    }
    // Returns "ended", an error, or undefined when an open connection broke.
    async #attempt() {
        this.#controller = new AbortController();
        this.#lastByte = Date.now();
        this.#streamAt = 0;
        if (this.state.name !== "waiting" && !this.heldBack)
            this.#setState({ name: "connecting" });
        const firstByte = this.#expectFirstByte();
        try {
            const headers = { Accept: "text/event-stream", ...this.#options.headers?.() };
            const response = await fetch(this.#options.url(this.cursor), { headers, cache: "no-store", signal: this.#controller.signal });
            if (response.status === 204)
                return "ended";
            if (!response.ok)
                return await errorFrom(response);
            await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader(), firstByte);
        }
        catch {
            return this.heldBack ? "again" : unreachable();
        }
        finally {
            clearTimeout(firstByte);
            this.#controller = null;
        }
        return undefined;
    }
    async #read(reader, firstByte) {
        const parser = new EventStreamParser({ onEvent: (event) => this.#deliver(event) });
        for (;;) {
            const { value, done } = await reader.read();
            if (done || this.stopped)
                return;
            clearTimeout(firstByte);
            this.heldBack = false;
            if (this.state.name !== "behind")
                this.#current();
            this.#lastByte = Date.now();
            this.#failures = 0;
            parser.push(value);
        }
    }
    #deliver({ id, event, data }) {
        let decoded;
        try {
            decoded = JSON.parse(data);
        }
        catch {
            return; // Not an event of ours: it is skipped, and the connection stays.
        }
        this.#take({ id, event, data: decoded });
    }
    #take(event) {
        if (this.stopped)
            return;
        if (event.id)
            this.cursor = event.id;
        this.#measure(event.data?.at);
        this.#options.onEvent(event);
    }
    // An event's age when it arrives is how far behind this connection is; silence means that nothing is left to catch up with.
    #measure(at) {
        const age = at ? Date.now() - Date.parse(at) - clockOffset(at) : 0;
        if (age > BEHIND_MS)
            this.#setState({ name: "behind", seconds: Math.round(age / 1000) });
        else
            this.#current();
        clearTimeout(this.#quiet);
        if (this.state.name === "behind")
            this.#quiet = setTimeout(() => this.#current(), 1200);
    }
    #current() {
        const name = this.heldBack ? "polling" : "live";
        if (this.state.name !== name)
            this.#setState({ name });
    }
    async #pause(error) {
        const step = BACKOFF_MS[Math.min(this.#failures++, BACKOFF_MS.length - 1)];
        const until = Date.now() + Math.max(error?.retryAfterMs ?? 0, step * (0.8 + Math.random() * 0.4));
        const report = () => {
            const seconds = Math.max(0, Math.ceil((until - Date.now()) / 1000));
            const isOnline = globalThis.navigator?.onLine ?? true;
            this.#setState(isOnline ? { name: "waiting", seconds, error } : { name: "offline" });
        };
        report();
        const ticker = this.#every(1000, report);
        await new Promise((resolve) => {
            this.#wake = resolve;
            setTimeout(resolve, until - Date.now());
        });
        this.#wake = null;
        clearInterval(ticker);
        this.#timers.delete(ticker);
    }
    #every(ms, work) {
        const timer = setInterval(work, ms);
        this.#timers.add(timer);
        return timer;
    }
    #setState(state) {
        this.state = state;
        this.#options.onState?.(state, this);
    }
}
// The smallest difference ever seen between the server's stamp and this clock: clocks differ, and transmission only adds to it.
let offset = Infinity;
function clockOffset(at) {
    offset = Math.min(offset, Date.now() - Date.parse(at));
    return offset;
}
