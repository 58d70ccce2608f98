// @ts-check
import { exactly } from "../../dom/format.js";
import { h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { fully, pastWords, rowsOf, sentenceOf } from "../../state/inbox.js";
import { byWords } from "../../state/words.js";

const MARKS = /** @type {Record<string, string>} */ ({ fail: "failed", reject: "refused" });

/**
 * Return the pane of a question that is open no more: how it was answered and by whom, or that it is gone.
 *
 * @param {{question: any, answer: any, onNext: (() => void) | null}} given
 */
export function Outcome({ question, answer, onNext }) {
  const next = onNext && h("button.btn.go", { type: "button", dataset: { key: "next" }, onclick: onNext }, "Next question ", h("kbd", {}, "j"));
  const back = h("a.back.quiet", { href: "#/approvals" }, "All open questions");
  if (!question) return h("section.right", { "aria-label": "The chosen question" }, h("article.detail", {}, back, h("h2", { tabindex: "-1" }, "This question is not open"), h("p.soft", {}, "It was answered some time ago, its run has ended, or it is of a run that you may not answer for."), next && h("p", {}, next)));
  return h("section.right", { "aria-label": "The chosen question" }, h("article.detail", {}, back,
    h("header", {}, OutcomeLine(answer), h("h2", { dir: "auto", tabindex: "-1" }, visible(sentenceOf(question))), h("p.meaning", {}, h("code", {}, visible(question.name)), h("a.quiet", { href: addressOf("/run/:runId", { runId: question.run_id }), dataset: { key: "run" } }, "Open the run"))),
    answer.message && h("blockquote", { dir: "auto" }, visible(answer.message)),
    h("section.block", {}, h("h3.caps", {}, "What was asked"), h("dl.fields", {}, rowsOf(question).filter(({ isNone, isDefault }) => !isNone && !isDefault).map(({ name, value }) => [h("dt", {}, visible(name)), h("dd", { dir: "auto" }, visible(fully(value)))]))),
    next && h("p", {}, next)));
}

/** @type {(answer: any, sentence?: string) => HTMLElement} Returns in one line how a question was answered. */
export function OutcomeLine(answer, sentence = "") {
  return h("p.outcome", { role: "status", tabindex: "-1" }, icon(answer.isOver ? "cancelled" : MARKS[answer.decision] ?? "succeeded"), h("span", {}, outcomeWords(answer), sentence && h("span.soft", { dir: "auto" }, ` ${visible(sentence)}`)));
}

/** @type {(answer: any) => any} */
function outcomeWords({ decision, by, isMine, isLate, isOver, at, changed, isOneOfSeveral }) {
  if (isOver) return "The run ended, or was stopped, before this was answered.";
  const how = changed?.length ? " with other arguments" : "";
  return [isLate && "Another answer came first: ", h("b", {}, pastWords(decision) + how), ` ${byWords({ by: visible(by ?? ""), mine: isMine })}.`, isOneOfSeveral && " Others may have to approve it, too.", at && h("span.faint", {}, ` ${exactly(at)}`)];
}
