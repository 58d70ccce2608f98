// @ts-check
// The questions of the inbox: their groups, their words, and what of a call's arguments a person has changed.

import { plural } from "../dom/format.js";
import { asJson } from "../dom/json.js";
import { visible } from "../dom/visible.js";
import { fieldsOf } from "./form.js";
import { isMe, ownerOf } from "./me.js";
import { decisionWords } from "./words.js";

/** @typedef {any} Question a question as `GET /v1/approvals` lists it */
/** @typedef {{key: string, title: string, isTool?: boolean, note: string, questions: Question[]}} Group */

/** What is done without an answer. */
export const EXPIRIES = /** @type {Record<string, string>} */ ({ reject: "the call is rejected", take_default: "the call is not made and gets its default result" });
/** What an answer about an unknown outcome means. */
export const MEANINGS = /** @type {Record<string, string>} */ ({
  fail: "Nothing more is done; the run ends as failed.",
  take_as_done: "The call is not made again; the agent continues with the result you give, if you know one.",
  run_again: "The call is made once more. If it took effect before, it takes effect twice.",
});
/** The icon of a decision; that of the others is a success. */
export const MARKS = /** @type {Record<string, string>} */ ({ fail: "failed", reject: "refused" });
/** The answers in their order wherever they stand: the one to choose last, but for one that may do harm. */
const ORDER = ["pass", "reject", "edit", "approve", "fail", "take_as_done", "run_again"];
/** The answer to which the key of another one leads where that is not offered; no key leads to a call made again. */
const INSTEAD = /** @type {Record<string, string>} */ ({ approve: "take_as_done", reject: "fail" });
const LABELS = /** @type {Record<string, string>} */ ({ outward: "Its arguments leave for another system", untrusted: "The run has read what others may have written", sensitive: "The run has read sensitive data" });

const PAST = /** @type {Record<string, string>} */ ({ approve: "Approved", reject: "Rejected", answer: "Answered", run_again: "Run again", take_as_done: "Taken as done", fail: "Ended as failed" });
const SHORT = 24;
const LAST_HOUR_MS = 3_600_000;
const ORDERS = /** @type {Record<string, (a: Question, b: Question) => number>} */ ({
  "": (a, b) => Date.parse(a.asked_at) - Date.parse(b.asked_at),
  newest: (a, b) => Date.parse(b.asked_at) - Date.parse(a.asked_at),
  expiry: (a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at),
});

/**
 * Return the questions in groups: two or more calls of one tool together, calls that were cut off, other questions, and
 * those that others have to answer. The tools that have a group are noted in `kept`, and keep it for their last call.
 *
 * @param {Question[]} questions
 * @param {{agent?: string, order?: string, tab?: string}} [query] `tab: "mine"`: those of the reader's own runs
 * @param {Set<string>} [kept]
 * @returns {Group[]}
 */
export function groupsOf(questions, { agent = "", order = "", tab = "" } = {}, kept = new Set()) {
  const list = questions.filter((question) => (!agent || question.agent === agent) && (tab !== "mine" || isMe(question.principal))).sort(ORDERS[order] ?? ORDERS[""]);
  const mine = list.filter(mayAnswer), unknown = mine.filter(({ kind }) => kind === "unknown");
  const calls = mine.filter(isCall);
  const tools = [...new Set(calls.map(({ name }) => name))].map((name) => ({ name, of: calls.filter((call) => call.name === name) })).filter(({ name, of }) => of.length > 1 || kept.has(name));
  for (const { name } of tools) kept.add(name);
  const single = mine.filter((question) => question.kind !== "unknown" && !tools.some(({ of }) => of.includes(question)));
  return [
    ...tools.map(({ name, of }) => ({ key: `tool ${name}`, title: name, isTool: true, note: plural(of.length, "call"), questions: of })),
    { key: "unknown", title: "Did these take effect?", note: `${plural(unknown.length, "call")} cut off`, questions: unknown },
    { key: "others", title: tools.length || unknown.length ? "Others" : "Waiting for you", note: "", questions: single },
    { key: "elsewhere", title: "Waiting for another person", note: "", questions: list.filter((question) => !mayAnswer(question)) },
  ].filter((group) => group.questions.length);
}

/** Return whether the reader may answer: where several persons approve, neither the run's principal nor one twice. */
export function mayAnswer(/** @type {Question} */ { approvers, approved_by: by = [], principal }) {
  return !(approvers > 1) || !(isMe(principal) || by.some(isMe));
}

/** Return whether a call can be decided about together with others of its tool. */
export function isJoinable(/** @type {Question} */ question) {
  return isCall(question) && Boolean(question.digest) && !(question.approvers > 1);
}

/** Return whether a question is about a call before it is made, and no gate of a workflow. */
export function isCall(/** @type {Question} */ { kind, name, decisions }) {
  return kind === "call" && decisions.includes("approve") && name !== "approval_gate";
}

/** Return whether the arguments may be changed: where several persons approve they approve the call as it is. */
export function isEditable(/** @type {Question} */ question) {
  return isCall(question) && !(question.approvers > 1) && fieldsOf(question.input_schema ?? {}).length > 0;
}

/** Return the question in one line, as its tool's author writes it, or the call as it is. */
export function sentenceOf(/** @type {Question} */ { sentence, kind, name, reason = "", arguments: args = {} }) {
  if (sentence) return sentence;
  if (kind === "input") return reason.split("\n\n")[0] || "A question";
  if (name === "approval_gate") return String(args.message ?? "May the workflow continue?");
  const values = Object.entries(args).map(([key, value]) => `${key} ${shortly(value)}`).join(", ");
  return `${name}${values ? `: ${values}` : ""}`.slice(0, 300);
}

/** Return what a question asks, as its heading: in its author's words, where the tool has a title. */
export function headingOf(/** @type {Question} */ question) {
  const { sentence, decisions = ["approve"], name } = question;
  if (decisions.includes("run_again")) return sentence ? `Did this take effect: ${sentence}?` : "Did this call take effect?";
  if (!decisions.includes("approve") || name === "approval_gate") return sentenceOf(question);
  return sentence ? `${sentence}?` : "May this call be made?";
}

/** Return the answers, or what stands beside them, in their order. */
export function inOrder(/** @type {string[]} */ decisions) {
  return decisions.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
}

/** Return an answer, or what stands beside the answers, as its button says it. */
export function answerWords(/** @type {string} */ decision) {
  return decision === "pass" ? "Pass on" : decision === "edit" ? "Edit" : decisionWords(decision);
}

/** Return the answer to which a key leads. */
export function keyed(/** @type {string} */ decision, /** @type {string[]} */ offered) {
  return offered.includes(decision) ? decision : INSTEAD[decision] ?? decision;
}

/** Return whether an answer is the one to choose, which its button shows. */
export function isMain(/** @type {string} */ decision) {
  return decision === "approve" || decision === "take_as_done";
}

/** Return in sentences what the labels of a call, and of what its run had read, say. */
export function labelWords(/** @type {string[]} */ labels = []) {
  return labels.map((label) => `${LABELS[label] ?? "A label of the call or its run"} (${label}).`).join(" ");
}

/** Return how many persons have approved, where several have to; else nothing. */
export function severalWords(/** @type {Question} */ { approvers, approved_by: names = [] }) {
  if (!(approvers > 1)) return "";
  const given = names.length ? `${names.length} of ${approvers} have approved it: ${names.map((/** @type {string} */ name) => visible(name)).join(", ")}.` : `${approvers} persons have to approve it.`;
  return `${given} The owner of the run is none of them.`;
}

/** Return who may answer, where the reader may not. */
export function ownersWords(/** @type {string} */ principal) {
  return `You may not answer this. Its owner, ${visible(ownerOf(principal))}, may, and so may everyone with the role approver or admin.`;
}

/** Return how long something lasts, in two units: `6 d 23 h`, `5 h 02 min`, `12 min`, `40 s`. */
export function lasting(/** @type {number} */ ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000)), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  if (seconds < 60) return `${seconds} s`;
  if (minutes < 60) return `${minutes} min`;
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Return {words, isSoon}: how long a question is open still. */
export function expiryOf(/** @type {Question} */ { expires_at: at }, /** @type {number} */ now) {
  const ms = Date.parse(at) - now;
  if (!Number.isFinite(ms)) return { words: "", isSoon: false };
  return ms <= 0 ? { words: "expired", isSoon: true } : { words: `${lasting(ms)} left`, isSoon: ms < LAST_HOUR_MS };
}

/**
 * Return the rows of a call: its arguments, what its tool takes for those left out, and those without either.
 *
 * @param {Question} question
 * @returns {{name: string, value?: unknown, isDefault?: boolean, isNone?: boolean, field?: any}[]}
 */
export function rowsOf(question) {
  const { arguments: args = {}, defaults = {}, kind } = question;
  const fields = kind === "call" ? fieldsOf(question.input_schema ?? {}, args) : [];
  const names = [...new Set([...Object.keys(args), ...fields.map(({ name }) => name)])];
  return names.map((name) => {
    const field = fields.find((each) => each.name === name);
    if (name in args) return { name, value: args[name], field };
    const value = defaults[name] ?? field?.schema.default;
    return value === undefined || value === null ? { name, isNone: true, field } : { name, value, isDefault: true, field };
  });
}

/** Return what the button says that approves a call with these changed arguments. */
export function approveWords(/** @type {unknown[]} */ changes) {
  if (!changes.length) return "Approve";
  const text = changes.length === 1 ? shortly(changes[0]) : "";
  return text && text.length <= SHORT ? `Approve with ${text}` : `Approve with ${plural(changes.length, "change")}`;
}

/** Return a value as one line. */
export function shortly(/** @type {unknown} */ value) {
  return (typeof value === "string" ? value : JSON.stringify(value) ?? "").replace(/\s+/g, " ").slice(0, 200);
}

/** Return a value in full. */
export function fully(/** @type {unknown} */ value) {
  return typeof value === "string" ? value : asJson(value);
}

/** Return what a decision did, as a heading of its outcome begins. */
export function pastWords(/** @type {string} */ decision) {
  return PAST[decision] ?? decisionWords(decision);
}

/** Return the words of how calls of a tool were decided: `38 approved, 1 changed, 2 rejected`. */
export function decidedWords(/** @type {any} */ { approved, changed, rejected, expired }) {
  const parts = [[approved, "approved"], [changed, "changed"], [rejected, "rejected"], [expired, "expired"]];
  return parts.filter(([number]) => number).map(([number, word]) => `${number} ${word}`).join(", ") || "none yet";
}
