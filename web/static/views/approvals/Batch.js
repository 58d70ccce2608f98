// @ts-check
// Several calls of one tool, decided about together: all of them with all their arguments, and two answers.

import { Notice } from "../../components/Notice.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { sendSeveral } from "../../services/api.js";
import { fully, rowsOf, sentenceOf } from "../../state/inbox.js";
import { errorWords } from "../../state/words.js";

/** The pane that shows the chosen calls in one table, so that no call is approved unseen. */
export function BatchReview(/** @type {import("../../dom/live.js").Signal<any>} */ row) {
  const detail = h("article.detail", { tabindex: "0", role: "region", "aria-label": "Their arguments" });
  watch(() => {
    const { questions } = row.value;
    const key = questions.map((/** @type {any} */ { approval_id: id }) => id).join();
    if (detail.dataset.shown === key) return;
    detail.dataset.shown = key;
    const calls = questions.map((/** @type {any} */ question) => ({ question, rows: rowsOf(question).filter(({ isNone }) => !isNone) }));
    const names = [...new Set(calls.flatMap((/** @type {any} */ { rows }) => rows.map((/** @type {any} */ { name }) => name)))];
    const valueOf = (/** @type {any} */ rows, /** @type {unknown} */ name) => rows.find((/** @type {any} */ each) => each.name === name);
    fill(detail, h("header", {}, h("h2", { tabindex: "-1" }, `${questions.length} calls of `, h("code", {}, visible(questions[0]?.name ?? ""))), h("p.soft", {}, "Each call counts for itself. Those that several persons have to approve are looked at one by one.")),
      h("div.review", {}, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Call"), names.map((name) => h("th", { scope: "col" }, visible(String(name)))))),
        h("tbody", {}, calls.map((/** @type {any} */ { question, rows }) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, visible(sentenceOf(question))), names.map((name) => { const cell = valueOf(rows, name); return h("td", { dir: "auto" }, cell ? visible(fully(cell.value)) : "", cell?.isDefault && h("small", {}, " default")); })))))));
  });
  return h("section.right", { "aria-label": "The chosen calls" }, detail);
}

/** The answers for the chosen calls, below the list. */
export class BatchBar {
  #isBusy = false;

  /** @param {{chosen: any, questions: () => any[], onAnswers: (questions: any[], answers: any[]) => void}} given */
  constructor({ chosen, questions, onAnswers }) {
    this.chosen = chosen;
    this.questions = questions;
    this.onAnswers = onAnswers;
    this.words = h("span");
    this.note = h("input.note", { type: "text", maxlength: "2000", "aria-label": "A word about these calls", placeholder: "A word for the log, and with a rejection for the agents" });
    /** Which calls were refused; it stays when nothing is chosen any more. */
    this.problem = h("div.batch-problem", { role: "alert" });
    const button = (/** @type {string} */ decision) => h("button.btn", { type: "button", dataset: { key: decision }, onclick: () => this.#decide(decision) });
    this.reject = button("reject");
    this.approve = button("approve");
    say(this.reject, "Reject");
    this.element = h("div.batch", { role: "group", "aria-label": "The chosen calls" }, h("div.batch-note", {}, this.note, h("button.quiet", { type: "button", onclick: () => { chosen.value = new Set(); } }, "Choose none")), this.words, this.reject, this.approve);
    watch(() => {
      const list = questions(), number = list.length;
      this.element.hidden = !number;
      fill(this.words, h("b", {}, `${number} chosen`), " of ", h("code", {}, visible(list[0]?.name ?? "")));
      say(this.approve, `Approve ${number}`);
    });
  }

  /** Move the focus to an answer. */
  focus(/** @type {string} */ decision) {
    (decision === "reject" ? this.reject : this.approve).focus();
  }

  async #decide(/** @type {string} */ decision) {
    if (this.#isBusy) return;
    const list = this.questions(), message = this.note.value.trim() || undefined;
    this.#busy(true);
    try {
      const answers = await sendSeveral(list.map(({ run_id, approval_id, digest }) => ({ run_id, approval_id, digest, decision, message })));
      this.note.value = "";
      const refused = answers.filter((/** @type {any} */ { code }) => code);
      fill(this.problem, refused.length > 0 && Notice({ text: `${refused.length} of ${answers.length} were refused: ${refused[0].detail}`, code: refused[0].code, actions: [["Close", () => fill(this.problem)]] }));
      this.onAnswers(list, answers);
    } catch (/** @type {any} */ error) {
      fill(this.problem, Notice({ text: errorWords(error), code: error.code }));
    } finally {
      this.#busy(false);
    }
  }

  #busy(/** @type {boolean} */ on) {
    this.#isBusy = on;
    this.element.setAttribute("aria-busy", String(on));
    this.reject.disabled = this.approve.disabled = on;
  }
}
