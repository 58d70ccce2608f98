// @ts-check
// A run's state in words: the same in every list, at the terminal and over HTTP.

import { visible } from "../dom/visible.js";

/** @type {Record<string, string>} */
const WAITS = { approval: "waiting for an answer", paused: "paused", task: "waiting for a task", signal: "waiting for a signal or a time", child: "waiting for child runs", code_version: "waiting for another worker", principal_disabled: "waiting for its principal" };
/** @type {Record<string, string>} */
const DECISIONS = { run_again: "Run again", take_as_done: "Take as done", fail: "Fail the run", approve: "Approve", reject: "Reject", answer: "Answer", void: "Asked again" };
/** @type {Record<string, string>} */
const EFFECTS = {
  pure: "It changes nothing.",
  idempotent: "Made twice, it takes effect once.",
  keyed: "Made twice, it takes effect once.",
  checkable: "It can be found out whether it took effect.",
  unsafe: "Made twice, it takes effect twice.",
};
/** @type {Record<string, string>} */
const PEOPLE = { terminal: "at a terminal", expiry: "since no answer came in time" };

/** @type {(status: string, reason?: string | null) => string} Returns `running`, `waiting for an answer`, … */
export function stateWords(status, reason) {
  return (status === "waiting" && WAITS[/** @type {string} */ (reason)]) || status;
}

/** @type {(run: {detail?: string, nodes?: Record<string, {status?: string, content?: string}>}) => string} Returns for what a run waits, as its server says it, or else the nodes of its workflow. */
export function waitWords({ detail, nodes = {} }) {
  return detail ?? Object.values(nodes).map(({ status, content }) => (status === "waiting" && content) || "").filter(Boolean).join(" ");
}

/** @type {(error: {message: string, status?: number}) => string} Returns an error for a person: one about the credential is meant for programs, and a notice offers the sign-in. */
export function errorWords(error) {
  return error.status === 401 ? "You are not signed in any more. Sign in again to continue." : error.message;
}

/** Return a decision as its button says it. */
export function decisionWords(/** @type {string} */ decision) {
  return DECISIONS[decision] ?? decision.replaceAll("_", " ");
}

/** Return what an effect class means to who decides, as cli/output/question.py says it. */
export function effectWords(/** @type {string} */ effect) {
  return EFFECTS[effect] ?? "";
}

/** @type {(answer: {by?: string, mine?: boolean, [fact: string]: any}) => string} Returns `by you`, `at a terminal`, … for who decided an approval item. */
export function byWords({ by, mine }) {
  if (mine) return "by you";
  return PEOPLE[/** @type {string} */ (by)] ?? (by ? `by ${visible(by)}` : "");
}
