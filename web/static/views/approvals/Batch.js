// @ts-check
// Several calls of one tool, decided about together: all of them with all their arguments, and two answers.

import { Notice } from "../../ui/Notice.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { sendSeveral } from "../../services/api.js";
import { fully, rowsOf, sentenceOf } from "../../state/inbox.js";
import { errorWords } from "../../state/words.js";

/** The pane that shows the chosen calls in one table, so that no call is approved unseen. */
export function BatchReview(/** @type {import("../../dom/live.js").Signal<any>} */ row) {
  const detail = h("article.detail", { tabindex: "0", role: "region", "aria-label": "Their arguments" });
  const back = h("a.back.quiet", {}, "All open questions");
  watch(() => {
    const { questions } = row.value;
    const key = questions.map((/** @type {any} */ { approval_id: id }) => id).join();
    if (detail.dataset.shown === key) return;
    detail.dataset.shown = key;
    const calls = questions.map((/** @type {any} */ question) => ({ question, rows: rowsOf(question).filter(({ isNone }) => !isNone) }));
    const names = [...new Set(calls.flatMap((/** @type {any} */ { rows }) => rows.map((/** @type {any} */ { name }) => name)))];
    const valueOf = (/** @type {any} */ rows, /** @type {unknown} */ name) => rows.find((/** @type {any} */ each) => each.name === name);
    fill(detail, back, h("header", {}, h("h2", { tabindex: "-1" }, `${questions.length} calls of `, h("code", {}, visible(questions[0]?.name ?? ""))), h("p.soft", {}, "Each call counts for itself. Those that several persons have to approve are looked at one by one.")),
      h("div.review", {}, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Call"), names.map((name) => h("th", { scope: "col" }, visible(String(name)))))),
        h("tbody", {}, calls.map((/** @type {any} */ { question, rows }) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, visible(sentenceOf(question))), names.map((name) => { const cell = valueOf(rows, name); return h("td", { dir: "auto" }, cell ? visible(fully(cell.value)) : "", cell?.isDefault && h("small", {}, " default")); })))))));
  });
  return h("section.right", { "aria-label": "The chosen calls" }, detail);
}

/** The answers for the chosen calls, below the list: no call is decided about before all of them are shown. */
export class BatchBar {
  #isBusy = false;

  /** @param {{choice: import("./Choice.js").Choice, onNone: () => void, onAnswers: (questions: any[], answers: any[]) => void}} given */
  constructor({ choice, onNone, onAnswers }) {
    this.choice = choice;
    this.onAnswers = onAnswers;
    this.words = h("span");
    this.note = h("input.note", { type: "text", maxlength: "2000", "aria-label": "A word about these calls", placeholder: "For the log; if rejected, for the agents too" });
    this.problem = h("div.batch-problem", { role: "alert" });
    const button = (/** @type {string} */ key, /** @type {() => void} */ onclick) => h(`button.btn${key === "approve" ? ".go" : ""}`, { type: "button", dataset: { key }, onclick });
    this.reject = button("reject", () => this.#decide("reject"));
    this.approve = button("approve", () => this.#decide("approve"));
    const review = button("review", () => choice.review());
    say(this.reject, "Reject");
    this.element = h("div.batch", { role: "group", "aria-label": "The chosen calls" }, this.note, this.words, h("button.quiet", { type: "button", onclick: onNone }, "Choose none"), this.reject, this.approve, review);
    watch(() => {
      const list = choice.calls(), number = list.length, isShown = choice.isTogether();
      this.element.hidden = !number;
      fill(this.words, h("b", {}, `${number} chosen`), " of ", h("code", {}, visible(list[0]?.name ?? "")));
      say(this.approve, `Approve ${number}`);
      say(review, `Review ${number}`);
      this.note.hidden = this.reject.hidden = this.approve.hidden = !isShown;
      review.hidden = isShown || number < 2;
    });
  }

  /** Move the focus to one of the two answers. */
  focus(/** @type {string} */ decision) {
    if (decision === "reject") this.reject.focus();
    if (decision === "approve") this.approve.focus();
  }

  async #decide(/** @type {string} */ decision) {
    if (this.#isBusy) return;
    const list = this.choice.calls(), message = this.note.value.trim() || undefined;
    this.#busy(true);
    try {
      const answers = await sendSeveral(list.map(({ run_id, approval_id, digest }) => ({ run_id, approval_id, digest, decision, message })));
      this.note.value = "";
      this.onAnswers(list, answers);
    } catch (/** @type {any} */ error) {
      fill(this.problem, Notice({ text: errorWords(error), code: error.code }));
    } finally {
      this.#busy(false);
    }
  }

  #busy(/** @type {boolean} */ on) {
    if (on) fill(this.problem);
    this.#isBusy = on;
    this.element.setAttribute("aria-busy", String(on));
    this.reject.disabled = this.approve.disabled = on;
  }
}
