// @ts-check
// What a question in the conversation says: which call it is about and why it is asked, or how it was answered.

import { deadline } from "../../dom/format.js";
import { h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { defaultsOf } from "../../state/form.js";
import { MARKS, headingOf, labelWords, severalWords } from "../../state/inbox.js";
import { byWords, decisionWords, effectWords } from "../../state/words.js";
import { ArgumentList } from "../../ui/ArgumentList.js";
import { policyOf } from "./ToolCard.js";

/** @typedef {import("../../state/story.js").ApprovalItem} Question */
/** @typedef {Partial<import("../../state/story.js").ToolItem>} Call */
/** @typedef {HTMLElement | HTMLElement[] | string | number | false | null | undefined} Part */

/** @type {(item: Question, call: Call, isEdit: boolean) => Part[]} Returns what a person decides about; `call` is the item of the tool call, and `isEdit` whether its arguments are in a form. */
export function QuestionText(item, call, isEdit) {
  if (item.form) return formText(item);
  const { message, ...data } = item.arguments ?? {};
  const args = isGate(item) ? data : item.arguments;
  return [
    h("div", {}, h("p.ask-title", { dir: "auto" }, visible(headingOf(item))), meaning(item, effectOf(item, call))),
    !isEdit && (args === item.arguments || Object.keys(data).length > 0) && argumentsOf(item, args),
    h("div.ask-why", {}, item.reason && h("p", {}, visible(item.reason)), /** @type {number} */ (item.labels?.length) > 0 && h("p", {}, visible(labelWords(item.labels))), policyOf(call, "asked")),
    /** @type {number} */ (item.approvers) > 1 && h("p", {}, severalWords(item)),
  ];
}

/** Return how a question was answered, and what was asked. */
export function AnswerText(/** @type {Question} */ item) {
  const how = item.edited && item.decision !== "answer" ? " with other arguments" : "";
  const mark = icon(item.decision ? MARKS[item.decision] ?? "succeeded" : "cancelled");
  const outcome = item.decision
    ? h("p", {}, mark, item.late && "Another answer came first: ", h("strong", {}, decisionWords(item.decision) + how), ` — decided ${byWords(item)}.`)
    : h("p", {}, mark, "The run ended before it was answered.");
  if (item.scope) outcome.append(` It holds for later calls ${item.scope === "thread" ? "in this conversation" : "of this tool"}${item.until ? ` until ${deadline(item.until)}` : ""}.`);
  return [outcome, item.decision === "answer" ? item.answer && ArgumentList(item.answer) : item.edited && ArgumentList(item.edited), item.word && h("p.faint", {}, `“${visible(item.word)}”`), h("details", {}, h("summary", {}, "What was asked"), item.reason && h("p", {}, visible(item.reason)), argumentsOf(item, item.arguments))];
}

/** Return whether a question is a gate's: no call is made, but the workflow continues, about the data that it asks with. */
export function isGate(/** @type {Question} */ { name }) {
  return name === "approval_gate";
}

/** @type {(item: Question, call: Call) => string} Returns the effect class of the call that a question is about, or an empty text. */
export function effectOf(item, call) {
  return isGate(item) ? "" : item.effect ?? call.effect ?? "";
}

/** @type {(item: Question, shown: Question["arguments"]) => HTMLElement} */
function argumentsOf({ input_schema: schema, arguments: args }, shown) {
  return ArgumentList(shown, defaultsOf(schema ?? {}, args ?? {}));
}

// What the tool does, in its author's words, and what its effect class says about a mistake.
/** @type {(item: Question, effect: string) => Part[]} */
function meaning({ input_schema: schema }, effect) {
  const about = schema?.description?.split(/\n{2,}/).filter(Boolean) ?? [];
  const words = effectWords(effect);
  return [about.map((/** @type {string} */ paragraph) => h("p.ask-about", { dir: "auto" }, visible(paragraph))), words && h("p.ask-effect", {}, words)];
}

// What a tool asks, or what a call lacks.
/** @type {(item: Question) => Part[]} */
function formText(item) {
  const isMissing = item.ask === "arguments";
  const [title, more] = isMissing ? ["What is missing?", item.reason] : split(item.reason ?? "A question");
  return [h("div", {}, h("p.ask-title", {}, visible(title)), more && h("p", {}, visible(more))), isMissing && ArgumentList(item.arguments)];
}

// What stands behind the first empty line of a question is not part of its title: definitions, a server's longer words.
function split(/** @type {string} */ reason) {
  const end = reason.indexOf("\n\n");
  return end < 0 ? [reason, ""] : [reason.slice(0, end), reason.slice(end).trim()];
}
