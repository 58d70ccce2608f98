// @ts-check
import { exactly, plural } from "../../dom/format.js";
import { h, icon, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { MARKS, fully, pastWords, rowsOf, sentenceOf } from "../../state/inbox.js";
import { byWords, stateWords } from "../../state/words.js";


/**
 * Return the pane of a question that is open no more: how it was answered and by whom, or that it is gone.
 *
 * @param {{question: any, answer: any, board: any, onNext: (() => void) | null}} given
 */
export function Outcome({ question, answer, board, onNext }) {
  if (!question) return pane(onNext, h("h2", { tabindex: "-1" }, "This question is not open"), h("p.soft", {}, "It was answered some time ago, its run has ended, or it is of a run that you may not answer for."));
  return pane(onNext,
    h("header", {}, OutcomeLine(answer), h("h2", { dir: "auto", tabindex: "-1" }, visible(sentenceOf(question))), h("p.meaning", {}, h("code", {}, visible(question.name)), runLink(board, question.run_id))),
    answer.message && h("blockquote", { dir: "auto" }, visible(answer.message)),
    h("section.block", {}, h("h3.caps", {}, "What was asked"), h("dl.fields", {}, rowsOf(question).filter(({ isNone }) => !isNone).map(({ name, value, isDefault }) => [h("dt", {}, visible(name)), h("dd", { dir: "auto" }, visible(fully(value)), isDefault && h("small", {}, "default"))]))));
}

/** @type {(given: {answers: {question: any, answer: any}[], board: any, onNext: (() => void) | null}) => HTMLElement} Returns the pane of calls that were decided about together: what came of each. */
export function BatchOutcome({ answers, board, onNext }) {
  const taken = answers.filter(({ answer }) => answer.decision), number = taken.length === answers.length ? "" : `${taken.length} of `;
  return pane(onNext, h("h2", { tabindex: "-1" }, `${number}${plural(answers.length, "call")} ${taken.length ? pastWords(taken[0].answer.decision).toLowerCase() : "answered"}`),
    h("ul", {}, answers.map(({ question, answer }) => h("li.answer-row", {}, OutcomeLine(answer, sentenceOf(question)), h("p.l2", {}, runLink(board, question.run_id))))));
}

/** @type {(onNext: (() => void) | null, ...children: any[]) => HTMLElement} */
function pane(onNext, ...children) {
  return h("section.right", { "aria-label": "The chosen question" }, h("article.detail", {}, h("a.back.quiet", {}, "All open questions"), children, onNext && h("p", {}, h("button.btn.go", { type: "button", dataset: { key: "next" }, onclick: onNext }, "Next question ", h("kbd", {}, "j")))));
}

/** @type {(board: any, runId: string) => HTMLElement} Returns a link to the run, with the state that the run is in. */
function runLink(board, runId) {
  const link = h("a.quiet", { href: addressOf("/run/:runId", { runId }), dataset: { key: "run" } });
  watch(() => {
    board.changes.value;
    const run = board.get(runId);
    say(link, run ? `Its run: ${stateWords(run.status, run.reason)}` : "Open the run");
  });
  return link;
}

/** @type {(answer: any, sentence?: string) => HTMLElement} Returns in one line how a question was answered. */
export function OutcomeLine(answer, sentence = "") {
  return h("p.outcome", { role: "status", tabindex: "-1" }, icon(answer.isOver ? "cancelled" : answer.refusal ? "failed" : MARKS[answer.decision] ?? "succeeded"), h("span", {}, outcomeWords(answer), sentence && h("span.soft", { dir: "auto" }, ` ${visible(sentence)}`)));
}

/** @type {(answer: any) => any} */
function outcomeWords({ decision, by, isMine, isLate, isOver, at, changed, isOneOfSeveral, refusal }) {
  if (refusal) return visible(refusal);
  if (isOver) return "The run ended, or was stopped, before this was answered.";
  const how = changed?.length ? " with other arguments" : "";
  return [isLate && "Another answer came first: ", h("b", {}, pastWords(decision) + how), ` ${byWords({ by: visible(by ?? ""), mine: isMine })}.`, isOneOfSeveral && " Others may have to approve it, too.", at && h("span.faint", {}, ` ${exactly(at)}`)];
}
