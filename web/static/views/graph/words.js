// @ts-check
// What a graph says in words: of a node, of an item, of the whole.

import { count, duration, ticking } from "../../dom/format.js";
import { isOver } from "../../state/story.js";
import { typeWords } from "./signs.js";

/** @typedef {import("../../state/graphGroups.js").WorkflowNode} WorkflowNode */
/** @typedef {import("../../state/graphState.js").NodeState} NodeState */

/** @type {Record<string, string>} */
const WAITS = { APPROVAL_GATE: "waits for an approval", SUB_WORKFLOW: "waits for its run" };
/** @type {Record<string, string>} */
const STATES = { ahead: "not reached", started: "running", waiting: "waiting", done: "done", failed: "failed", skipped: "skipped", compensated: "undone", stopped: "stopped" };

/** Return `done`, `running`, …: a status for people. */
export function statusWords(/** @type {string} */ status) {
  return STATES[status] ?? status;
}

/** @type {(node: WorkflowNode, state: NodeState) => string} Returns the second line of a node's box: its type, then what it is at. */
export function nodeWords({ type, config }, state) {
  const isAtWork = state.status === "ahead" || ((state.status === "started" || state.status === "done") && !state.counts);
  return [isAtWork && typeWords(type), stateWords(type, state, config)].filter(Boolean).join(" · ");
}

/** @type {(node: WorkflowNode, state: NodeState) => string} Returns all of it, for who does not see the box. */
export function spokenWords({ id, name, label, type }, state) {
  const more = [state.branch && `takes ${state.branch}`, state.counts && countWords(state)];
  return [label ?? id, name, typeWords(type), statusWords(state.status), ...more].filter(Boolean).join(", ");
}

/** Return `17 of 40, 2 failed`. */
export function countWords(/** @type {NodeState} */ { counts = {}, seen = 0, total = seen }) {
  const ended = (counts.done ?? 0) + (counts.skipped ?? 0) + (counts.compensated ?? 0);
  return [`${count(ended)} of ${count(total)}`, counts.failed && `${count(counts.failed)} failed`].filter(Boolean).join(", ");
}

/** @type {(states: NodeState[], story: import("../../state/graphState.js").Story) => string} Returns how far the run is: `7 of 12 nodes done, 1 failed`. */
export function summaryWords(states, story) {
  const number = (/** @type {string[]} */ ...statuses) => states.filter(({ status }) => statuses.includes(status)).length;
  const parts = [`${count(number("done"))} of ${count(states.length)} nodes done`];
  for (const [words, ...statuses] of [["running", "started"], ["waiting", "waiting"], ["failed", "failed"], ["undone", "compensated"], ["skipped", "skipped"]]) {
    const n = number(...statuses);
    if (n) parts.push(`${count(n)} ${words}`);
  }
  if (isOver(story) && number("stopped")) parts.push(`${count(number("stopped"))} stopped`);
  return parts.join(" · ");
}

/** @type {(type: string, state: NodeState, config: WorkflowNode["config"]) => string} */
function stateWords(type, state, config) {
  const { status, attempt = 0, startedAt = "" } = state;
  if (state.counts && status !== "ahead") return countWords(state);
  if (status === "started") return attempt > 1 ? `attempt ${attempt}` : elapsed(startedAt);
  if (status === "waiting") return type === "WAIT" ? `waits for its ${config?.signal ? "signal" : "time"}` : WAITS[type] ?? "waits";
  if (status === "done") return state.duration_ms === undefined ? "" : duration(state.duration_ms);
  if (status === "failed" && attempt > 1) return `failed ${attempt} times`;
  return status === "ahead" ? "" : statusWords(status);
}

function elapsed(/** @type {string} */ at) {
  const ms = Date.now() - Date.parse(at);
  return ms >= 1000 ? ticking(ms) : "";
}
