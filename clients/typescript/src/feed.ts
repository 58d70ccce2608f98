import { ApiError, errorFrom, unreachable } from "./errors.js";
import { EventStreamParser, type ServerSentEvent } from "./sse.js";

// The server sends at least a comment each 15 s; a connection without one for longer than this is dead, even where TCP has not noticed.
const SILENCE_MS = 40_000;
const STALE_AFTER_SLEEP_MS = 18_000;
const BACKOFF_MS = [400, 1000, 2000, 4000, 8000, 15_000];
const BEHIND_MS = 2000;
// The server says something at once; a proxy that holds it back for longer than this holds back everything.
const FIRST_BYTE_MS = 6000;
// One slow answer is no proof of such a proxy.
const STREAM_AGAIN_MS = 60_000;

export interface FeedEvent<Data = unknown> {
  readonly id: string;
  readonly event: string;
  readonly data: Data;
}

/**
 * What a feed is doing: `polling` where streams are held back, `waiting` for its next attempt, `behind` by seconds; after
 * `refused` and `ended` nothing comes.
 */
export interface FeedState {
  readonly name: "connecting" | "live" | "polling" | "behind" | "waiting" | "offline" | "refused" | "ended";
  readonly seconds?: number;
  readonly error?: ApiError | undefined;
}

export interface FeedPage {
  readonly events: readonly FeedEvent[];
  readonly ended: boolean;
}

/** What a caller gives for a feed whose address is known. */
export interface FeedHandlers<Data = unknown> {
  cursor?: string;
  onEvent(event: FeedEvent<Data>): void;
  onState?(state: FeedState, feed: Feed): void;
}

export interface FeedOptions<Data = any> extends FeedHandlers<Data> {
  /** Return the address of the stream after a cursor. */
  url(cursor: string): string;
  /** Return what has come after a cursor; takes over where something on the way holds streams back. */
  poll?(cursor: string): Promise<FeedPage>;
  /** Return the headers that carry the credential. */
  headers?(): Record<string, string>;
}

type Failure = ApiError | "ended" | "again" | undefined;

/** One stream of events that reconnects by itself: it resumes after its cursor and reports its state. */
export class Feed {
  cursor: string;
  stopped = true;
  /** True where the stream did not come through: pages are polled in its place, and it is tried again each minute. */
  heldBack = false;
  state: FeedState = { name: "connecting" };
  readonly #options: FeedOptions;
  #controller: AbortController | null = null;
  #timers = new Set<ReturnType<typeof setInterval>>();
  #failures = 0;
  #lastByte = 0;
  #wake: (() => void) | null = null;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  #opened = 0;
  #streamAt = 0;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.cursor = options.cursor ?? "";
  }

  /** Open the connection and keep it open. */
  start(): this {
    if (!this.stopped) return this;
    this.stopped = false;
    globalThis.addEventListener?.("online", this.hurry);
    globalThis.addEventListener?.("offline", this.drop);
    globalThis.document?.addEventListener("visibilitychange", this.afterSleep);
    this.#every(5000, () => Date.now() - this.#lastByte > SILENCE_MS && this.drop());
    void this.#live();
    return this;
  }

  /** Close the connection; the cursor stays, so start() continues where it was. */
  stop(): void {
    this.stopped = true;
    globalThis.removeEventListener?.("online", this.hurry);
    globalThis.removeEventListener?.("offline", this.drop);
    globalThis.document?.removeEventListener("visibilitychange", this.afterSleep);
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers.clear();
    clearTimeout(this.#quiet);
    this.drop();
    this.hurry();
  }

  /** Try again now instead of after the pause. */
  readonly hurry = (): void => this.#wake?.();

  /** Give up the present connection; the next one resumes after the cursor. */
  readonly drop = (): void => this.#controller?.abort();

  readonly afterSleep = (): void => {
    if (document.hidden) return;
    this.hurry();
    if (Date.now() - this.#lastByte > STALE_AFTER_SLEEP_MS) this.drop();
  };

  // A poll outlasts stop(): when it returns after another start(), only the later loop continues.
  async #live(): Promise<void> {
    const opened = (this.#opened += 1);
    while (!this.stopped) {
      const failure = await (this.#isToPoll() ? this.#poll() : this.#attempt());
      if (this.stopped || opened !== this.#opened) return;
      if (failure === "ended") return this.#finish({ name: "ended" });
      // A defect of the server may be gone at the next attempt; a stream is for as long as the page is open.
      if (failure instanceof ApiError && !failure.retryable && failure.status < 500) return this.#finish({ name: "refused", error: failure });
      if (failure !== "again") await this.#pause(failure);
    }
  }

  #isToPoll(): boolean {
    if (!this.heldBack) return false;
    this.#streamAt ||= Date.now() + STREAM_AGAIN_MS;
    return Date.now() < this.#streamAt;
  }

  async #poll(): Promise<Failure> {
    try {
      const { events, ended } = await this.#options.poll!(this.cursor);
      this.#failures = 0;
      this.#lastByte = Date.now();
      this.#current();
      for (const event of events) this.#take(event);
      return ended ? "ended" : "again";
    } catch (error) {
      return error as ApiError;
    }
  }

  // Returns a timer that turns to polling when not even the first byte comes.
  #expectFirstByte(): ReturnType<typeof setTimeout> {
    return setTimeout(() => {
      this.heldBack = Boolean(this.#options.poll);
      this.drop();
    }, FIRST_BYTE_MS);
  }

  #finish(state: FeedState): void {
    this.stop();
    this.#setState(state);
  }

  // Returns "ended", an error, or undefined when an open connection broke.
  async #attempt(): Promise<Failure> {
    this.#controller = new AbortController();
    this.#lastByte = Date.now();
    this.#streamAt = 0;
    if (this.state.name !== "waiting" && !this.heldBack) this.#setState({ name: "connecting" });
    const firstByte = this.#expectFirstByte();
    try {
      const headers = { Accept: "text/event-stream", ...this.#options.headers?.() };
      const response = await fetch(this.#options.url(this.cursor), { headers, cache: "no-store", signal: this.#controller.signal });
      if (response.status === 204) return "ended";
      if (!response.ok) return await errorFrom(response);
      await this.#read(response.body!.pipeThrough(new TextDecoderStream()).getReader(), firstByte);
    } catch {
      return this.heldBack ? "again" : unreachable();
    } finally {
      clearTimeout(firstByte);
      this.#controller = null;
    }
    return undefined;
  }

  async #read(reader: ReadableStreamDefaultReader<string>, firstByte: ReturnType<typeof setTimeout>): Promise<void> {
    const parser = new EventStreamParser({ onEvent: (event) => this.#deliver(event) });
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.stopped) return;
      clearTimeout(firstByte);
      this.heldBack = false;
      if (this.state.name !== "behind") this.#current();
      this.#lastByte = Date.now();
      this.#failures = 0;
      parser.push(value);
    }
  }

  #deliver({ id, event, data }: ServerSentEvent): void {
    let decoded: unknown;
    try {
      decoded = JSON.parse(data);
    } catch {
      return; // Not an event of ours: it is skipped, and the connection stays.
    }
    this.#take({ id, event, data: decoded });
  }

  #take(event: FeedEvent): void {
    if (this.stopped) return;
    if (event.id) this.cursor = event.id;
    this.#measure((event.data as { at?: string } | null)?.at);
    this.#options.onEvent(event);
  }

  // An event's age when it arrives is how far behind this connection is; silence means that nothing is left to catch up with.
  #measure(at: string | undefined): void {
    const age = at ? Date.now() - Date.parse(at) - clockOffset(at) : 0;
    if (age > BEHIND_MS) this.#setState({ name: "behind", seconds: Math.round(age / 1000) });
    else this.#current();
    clearTimeout(this.#quiet);
    if (this.state.name === "behind") this.#quiet = setTimeout(() => this.#current(), 1200);
  }

  #current(): void {
    const name = this.heldBack ? "polling" : "live";
    if (this.state.name !== name) this.#setState({ name });
  }

  async #pause(error: ApiError | undefined): Promise<void> {
    const step = BACKOFF_MS[Math.min(this.#failures++, BACKOFF_MS.length - 1)]!;
    const until = Date.now() + Math.max(error?.retryAfterMs ?? 0, step * (0.8 + Math.random() * 0.4));
    const report = () => {
      const seconds = Math.max(0, Math.ceil((until - Date.now()) / 1000));
      const isOnline = globalThis.navigator?.onLine ?? true;
      this.#setState(isOnline ? { name: "waiting", seconds, error } : { name: "offline" });
    };
    report();
    const ticker = this.#every(1000, report);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      setTimeout(resolve, until - Date.now());
    });
    this.#wake = null;
    clearInterval(ticker);
    this.#timers.delete(ticker);
  }

  #every(ms: number, work: () => unknown): ReturnType<typeof setInterval> {
    const timer = setInterval(work, ms);
    this.#timers.add(timer);
    return timer;
  }

  #setState(state: FeedState): void {
    this.state = state;
    this.#options.onState?.(state, this);
  }
}

// The smallest difference ever seen between the server's stamp and this clock: clocks differ, and transmission only adds to it.
let offset = Infinity;

function clockOffset(at: string): number {
  offset = Math.min(offset, Date.now() - Date.parse(at));
  return offset;
}
