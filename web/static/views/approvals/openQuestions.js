// @ts-check
// The open questions that the reader may answer, read again when runs on the board begin or stop to ask.

import { onEnd, signal, watch } from "../../dom/live.js";
import { listQuestions } from "../../services/approvals.js";
import { resource } from "../../services/resource.js";

const PAGE = 200;
const REFRESH_MS = 15_000;
const PAUSE_MS = 300;

/** @typedef {{list: () => any[], isKnown: () => boolean, error: () => any, hasMore: () => boolean, more: () => void, refresh: () => void}} OpenQuestions */

/**
 * Return the open questions, which follow the board.
 *
 * @param {any} board
 * @returns {OpenQuestions}
 */
export function openQuestions(board) {
  const pages = signal(1);
  const { state, refresh } = resource((abort) => readPages(pages.peek(), abort), { everyMs: REFRESH_MS });
  let timer = /** @type {any} */ (0), asking = askingOf(board);
  const look = () => {
    timer = 0;
    const now = askingOf(board);
    if (now !== asking) refresh();
    asking = now;
  };
  watch(() => {
    board.changes.value;
    timer ||= setTimeout(look, PAUSE_MS);
  });
  onEnd(() => clearTimeout(timer));
  return {
    list: () => state.value.value?.questions ?? [],
    isKnown: () => state.value.value !== undefined,
    error: () => state.value.error,
    hasMore: () => Boolean(state.value.value?.next),
    more: () => { pages.value += 1; refresh(); },
    refresh,
  };
}

/** @type {(number: number, abort: AbortSignal) => Promise<{questions: any[], next?: string}>} */
async function readPages(number, abort) {
  const questions = [];
  let page = await listQuestions({ limit: PAGE }, abort);
  questions.push(...page.approvals);
  for (let i = 1; i < number && page.next; i += 1) {
    page = await listQuestions({ limit: PAGE, before: page.next }, abort);
    questions.push(...page.approvals);
  }
  return { questions, next: page.next };
}

// Which runs ask, in one text that differs when another one does, or the same one anew.
/** @type {(board: any) => string} */
function askingOf(board) {
  return `${board.number("questions")} ${board.lanes().questions.map((/** @type {any} */ run) => `${run.run_id}${run.detail ?? ""}${run.attempt ?? ""}`).join()}`;
}
