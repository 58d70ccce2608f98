// What a graph says in words: of a node, of an item, of the whole.

import { count, duration, ticking } from "../../dom/format.js";
import { isOver } from "../../state/story.js";
import { typeWords } from "./signs.js";

const WAITS = { APPROVAL_GATE: "waits for an approval", SUB_WORKFLOW: "waits for its run" };
const STATES = { ahead: "not reached", started: "running", waiting: "waiting", done: "done", failed: "failed", skipped: "skipped", compensated: "undone", stopped: "stopped" };

/** Return `done`, `running`, …: a status for people. */
export function statusWords(status) {
  return STATES[status] ?? status;
}

/** Return the second line of a node's box: its type, then what it is at. */
export function nodeWords({ type, config }, state) {
  const isAtWork = state.status === "ahead" || ((state.status === "started" || state.status === "done") && !state.counts);
  return [isAtWork && typeWords(type), stateWords(type, state, config)].filter(Boolean).join(" · ");
}

/** Return all of it, for who does not see the box. */
export function spokenWords({ id, name, label, type }, state) {
  const more = [state.branch && `takes ${state.branch}`, state.counts && countWords(state)];
  return [label ?? id, name, typeWords(type), statusWords(state.status), ...more].filter(Boolean).join(", ");
}

/** Return `17 of 40, 2 failed`. */
export function countWords({ counts = {}, seen = 0, total = seen }) {
  const ended = (counts.done ?? 0) + (counts.skipped ?? 0) + (counts.compensated ?? 0);
  return [`${count(ended)} of ${count(total)}`, counts.failed && `${count(counts.failed)} failed`].filter(Boolean).join(", ");
}

/** Return how far the run is: `7 of 12 nodes done, 1 failed`. */
export function summaryWords(states, story) {
  const number = (...statuses) => states.filter(({ status }) => statuses.includes(status)).length;
  const parts = [`${count(number("done"))} of ${count(states.length)} nodes done`];
  for (const [words, ...statuses] of [["running", "started"], ["waiting", "waiting"], ["failed", "failed"], ["undone", "compensated"], ["skipped", "skipped"]]) {
    const n = number(...statuses);
    if (n) parts.push(`${count(n)} ${words}`);
  }
  if (isOver(story) && number("stopped")) parts.push(`${count(number("stopped"))} stopped`);
  return parts.join(" · ");
}

function stateWords(type, state, config) {
  if (state.counts && state.status !== "ahead") return countWords(state);
  if (state.status === "started") return state.attempt > 1 ? `attempt ${state.attempt}` : elapsed(state.startedAt);
  if (state.status === "waiting") return type === "WAIT" ? `waits for its ${config?.signal ? "signal" : "time"}` : WAITS[type] ?? "waits";
  if (state.status === "done") return state.duration_ms === undefined ? "" : duration(state.duration_ms);
  if (state.status === "failed" && state.attempt > 1) return `failed ${state.attempt} times`;
  return state.status === "ahead" ? "" : statusWords(state.status);
}

function elapsed(at) {
  const ms = Date.now() - Date.parse(at);
  return ms >= 1000 ? ticking(ms) : "";
}
