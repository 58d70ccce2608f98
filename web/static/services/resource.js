// @ts-check
// What the server is asked for again and again: the last answer, and what is wrong with the newest one.

import { onEnd, signal } from "../dom/live.js";

const PAUSES_MS = [1000, 2000, 5000, 10_000, 30_000];

/**
 * Read something from the server now, every `everyMs` while the page is seen, and with `refresh()`.
 *
 * `state.value` has the last answer (`value`, undefined before the first), the error of the newest attempt (`error`, null
 * where it succeeded) and `isLoading`. An answer to an older question is dropped. After an error that may pass it is
 * asked again, after a pause that grows, or as long as the server says; what the reader may not see is not. It ends with the scope that it was made in.
 *
 * @template T
 * @param {(abort: AbortSignal) => Promise<T>} read
 * @param {{everyMs?: number}} [options]
 */
export function resource(read, { everyMs = 0 } = {}) {
  const state = signal(/** @type {{value: T | undefined, error: any, isLoading: boolean}} */ ({ value: undefined, error: null, isLoading: true }));
  let question = new AbortController();
  let timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);
  let failures = 0, isOver = false, isDue = false;

  const later = (/** @type {number} */ ms) => {
    clearTimeout(timer);
    if (ms && !isOver) timer = setTimeout(() => (globalThis.document?.hidden ? (isDue = true) : refresh()), ms);
  };
  const seen = () => !document.hidden && isDue && refresh();

  async function refresh() {
    question.abort();
    const own = (question = new AbortController());
    clearTimeout(timer);
    isDue = false;
    state.value = { ...state.peek(), isLoading: true };
    try {
      const value = await read(own.signal);
      if (own.signal.aborted) return;
      failures = 0;
      state.value = { value, error: null, isLoading: false };
      later(everyMs);
    } catch (/** @type {any} */ error) {
      if (own.signal.aborted) return;
      state.value = { ...state.peek(), error, isLoading: false };
      const mayPass = error.retryable ?? true;
      const isForbidden = error.status === 403; // it stays so as long as the reader is who it is
      later(mayPass ? error.retryAfterMs || PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)] : isForbidden ? 0 : everyMs);
    }
  }

  const stop = () => {
    isOver = true;
    question.abort();
    clearTimeout(timer);
    globalThis.document?.removeEventListener("visibilitychange", seen);
  };
  globalThis.document?.addEventListener("visibilitychange", seen);
  onEnd(stop);
  refresh();
  return { state, refresh, stop };
}
