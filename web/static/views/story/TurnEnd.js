// @ts-check
// How a run ended, in one line with what may be done then, and where more of the run is shown.

import { copyButton } from "../../dom/copyButton.js";
import { cost, exactly, plural, tokens, took } from "../../dom/format.js";
import { h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { ownerOf } from "../../state/me.js";
import { isOver } from "../../state/story.js";
import { stateWords } from "../../state/words.js";
import { Notice } from "../../ui/Notice.js";

/** @typedef {import("../../state/story.js").Story} Story */
/** @typedef {import("../../state/useTurnActions.js").Act} Act */

/** @type {(story: Story, again: (() => void) | null, act: Act | null) => (HTMLElement | string | null | undefined)[]} Returns the notice of an early or bad end, if there is something to say, and the line. */
export function TurnEnd(story, again, act) {
  const end = story.end ?? {};
  const status = end.status ?? story.status;
  const { input_tokens: read, output_tokens: written } = end.usage ?? {};
  const facts = [
    status === "dead" ? "dead: given up after repeated crashes" : stateWords(status),
    end.duration_ms !== undefined && took(/** @type {Required<import("../../state/story.js").End>} */ (end)),
    written !== undefined && tokens(read ?? 0, written),
    end.cost_usd !== undefined && cost(end.cost_usd),
    /** @type {number} */ (end.steps) > 1 && plural(/** @type {number} */ (end.steps), "step"),
  ];
  const shown = [...facts, story.run_id && idButton(story), story.run_id && timeline(story), copyAnswer(story), endActions(story, act)].filter(Boolean).map((fact) => h("span", {}, fact));
  return [endNotice(story, again), h(`p.end.is-${status}`, { title: exactly(/** @type {string} */ (story.lastAt ?? story.createdAt)) }, icon(status), h("span.facts", {}, shown))];
}

/** @type {(story: Story, again: (() => void) | null) => HTMLElement | string | null | undefined} */
function endNotice(story, again) {
  const { status, reason } = story.end ?? story;
  if (status === "cancelled") return null;
  const isShown = story.items.some((item) => item.kind === "error");
  if (status === "succeeded") return reason && h("p.passing", {}, icon("unknown"), h("span", {}, earlyWords(reason)));
  // The error's own item says it, with the same button.
  if (isShown) return null;
  const { code, message } = errorOf(story, reason);
  return Notice({ text: message, code, actions: again ? [["Try again", again]] : [] });
}

function earlyWords(/** @type {string} */ reason) {
  if (reason === "max_iterations") return "It reached its limit of steps and answered with what it had. Send a message to continue.";
  if (reason === "prompt_refused") return "The agent's guard refused this message, and no further tool was called. Send another one to continue.";
  return `Ended early: ${visible(reason)}.`;
}

/** @type {(story: Story, reason?: string) => {code?: string, message: string}} */
function errorOf(story, reason) {
  const error = story.error ?? reason ?? "The run failed without a reason.";
  if (typeof error === "object") return { code: error.code, message: error.message ?? error.code };
  const isCode = /^[a-z_]+$/.test(error);
  return { code: isCode ? error : undefined, message: isCode ? `The run ended with ${error.replaceAll("_", " ")}.` : error };
}

// What the agent answered, as Markdown.
function copyAnswer(/** @type {Story} */ story) {
  const hasAnswer = story.end?.output || story.items.some(({ kind }) => kind === "text");
  return hasAnswer && copyButton(async () => (await import("../../state/markdown.js")).answerOf(story));
}

// Of a run of one's own. A notice above the line offers to try it again.
/** @type {(story: Story, act: Act | null) => HTMLElement | null} */
function endActions(story, act) {
  if (!act || !story.run_id || ownerOf(story.principal) !== "you") return null;
  return h("button.quiet", { type: "button", title: "Begin another conversation with everything up to here", onclick: () => act("fork", story) }, "Fork");
}

/** Return where more of the run is shown; while it is open, with its id, which `./callboard watch`, `approve` and HTTP ask for. */
export function RunLinks(/** @type {Story} */ story) {
  if (!isOver(story)) return story.run_id && h("p.run-line.row", {}, idButton(story), timeline(story));
  const hasCalls = story.run_id && story.items.some((item) => item.kind === "tool");
  return hasCalls && h("p.decisions", {}, h("a.quiet", { href: addressOf("/run/:runId", { runId: story.run_id }, { tab: "decisions" }) }, "Policy decisions"));
}

function timeline(/** @type {Story} */ { run_id: runId }) {
  return h("a.quiet", { href: addressOf("/run/:runId", { runId }), title: "What the run did, step by step" }, "Timeline");
}

function idButton(/** @type {Story} */ { run_id: id }) {
  const button = copyButton(() => id, `run …${id.slice(-6)}`);
  button.classList.add("run-id");
  button.title = `Copy this run's id: ${id}`;
  return button;
}
