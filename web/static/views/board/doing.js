// @ts-check
// What a run of the board does or waits for, as far as the feed and the open questions say it.

import { plural } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { causeOf } from "./RunCard.js";
import { isAsking } from "../../state/filter.js";
import { lasting, sentenceOf } from "../../state/inbox.js";

/** @typedef {{words: string, left: string, isAsked: boolean}} Doing `left` is a time that stands behind the words */

/** Return the open questions by their runs, those first that are open for the shortest time. */
export function byRun(/** @type {any[]} */ questions) {
  /** @type {Map<string, any[]>} */
  const runs = new Map();
  for (const question of questions.toSorted((one, other) => Date.parse(one.expires_at) - Date.parse(other.expires_at))) runs.set(question.run_id, [...(runs.get(question.run_id) ?? []), question]);
  return runs;
}

/**
 * Return the words of what a run does or waits for, and for how long it has done it, or waits at most.
 *
 * @param {any} run
 * @param {any[]} [questions] its own, where the reader may answer them
 * @returns {Doing}
 */
export function doingOf(run, questions = [], now = Date.now()) {
  if (run.status === "running") return { ...atWork(run, now), isAsked: false };
  const [question, ...others] = isAsking(run) ? questions : [];
  if (!question) return { words: causeOf(run), left: "", isAsked: isAsking(run) };
  const words = question.kind === "unknown" ? `Did ${question.name} take effect?` : sentenceOf(question);
  const leftMs = Date.parse(question.expires_at) - now;
  return { words: others.length ? `${words}, and ${plural(others.length, "question")} more` : words, left: leftMs > 0 ? `${lasting(leftMs)} left` : "", isAsked: true };
}

/** @type {(run: any, now: number) => {words: string, left: string}} */
function atWork({ current_step: step, steps }, now) {
  if (!step) return { words: steps ? `${plural(steps, "call")} so far` : "its first call", left: "" };
  return { words: wordsOf(step), left: step.started_at ? lasting(now - Date.parse(step.started_at)) : "" };
}

/** @type {(step: {kind: string, name: string, node?: string}) => string} The path of a node says what it undoes. */
function wordsOf({ kind, name, node }) {
  if (node === undefined) return kind === "model" ? `model ${name}` : name;
  const [path, undoing] = node.split(/\/?~/);
  return undoing ? `undoes ${path || "what it did"}` : path;
}

/** @type {(cell: HTMLElement, doing: Doing) => void} Shows it: where there is no room the words are cut, and not the time. */
export function showDoing(cell, { words, left, isAsked }) {
  if (!cell.firstChild) cell.append(h("div.doing", {}, h("span"), h("small")));
  const line = /** @type {HTMLElement} */ (cell.firstChild), [text, time] = /** @type {HTMLElement[]} */ (/** @type {unknown} */ (line.children));
  line.classList.toggle("is-asked", isAsked);
  say(text, visible(words));
  line.title = text.textContent ?? "";
  say(time, left);
}
