// @ts-check
import { AnswerField, MeaningList, ScopeField, TAKE } from "../../ui/AnswerField.js";
import { Notice } from "../../ui/Notice.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { newKey, sendConfirm } from "../../services/api.js";
import { answerWords, approveWords, inOrder, isCall, isEditable, isMain, keyed } from "../../state/inbox.js";
import { errorWords } from "../../state/words.js";
import { PassOn } from "./PassOn.js";

const HINTS = /** @type {Record<string, string>} */ ({ approve: "a", reject: "r", edit: "e", pass: "p" });

/** The answers to a question, at the foot of it. */
export class AnswerBar {
  /** @type {Map<string, string>} The same answer sent again is the same request. */
  #keys = new Map();

  /** @param {{question: any, fields: import("./FieldTable.js").FieldTable, onAnswer: (answer: any) => void}} given */
  constructor({ question, fields, onAnswer }) {
    this.question = question;
    this.fields = fields;
    this.onAnswer = onAnswer;
    this.note = h("input.note", { type: "text", maxlength: "2000", "aria-label": "A word for the log", placeholder: "For the log; if rejected, for the agent too", autocomplete: "off" });
    this.problem = h("div", { role: "alert" });
    this.more = h("div.answer-more");
    this.scope = ScopeField(question, null);
    this.bar = h("div.answers", {}, this.scope, this.#buttons());
    this.element = h("footer.decide", {}, this.problem, this.more, this.note, MeaningList(question.decisions), this.bar);
  }

  /** Move the focus to the answer that a key stands for: no single key decides. */
  focus(/** @type {string} */ decision) {
    /** @type {HTMLElement | null} */ (this.bar.querySelector(`[data-key="${keyed(decision, this.question.decisions)}"]`))?.focus();
  }

  /** Send an answer; `onAnswer` gets what came of it, and what is wrong is shown here. */
  async send(/** @type {string} */ decision, /** @type {any} */ more = {}) {
    const { run_id: runId, approval_id: approvalId, digest } = this.question;
    const body = { decision, message: this.note.value.trim() || undefined, digest, ...more };
    const key = JSON.stringify(body);
    this.#keys.set(key, this.#keys.get(key) ?? newKey());
    this.#busy(true);
    try {
      const { by, status } = await sendConfirm({ runId, approvalId, key: this.#keys.get(key), ...body });
      this.onAnswer({ decision, by, status, isMine: true, message: body.message, changed: more.args && Object.keys(more.args), isOneOfSeveral: decision === "approve" && this.question.approvers > 1 });
    } catch (/** @type {any} */ error) {
      if (error.code === "approval_decided") return this.onAnswer({ ...error.facts, isLate: true });
      if (error.code === "approval_over") return this.onAnswer({ isOver: true });
      fill(this.problem, Notice({ text: errorWords(error), code: error.code }));
    } finally {
      this.#busy(false);
    }
  }

  #buttons() {
    const { decisions } = this.question;
    const all = inOrder(["pass", ...decisions.filter((/** @type {string} */ each) => each !== "answer"), ...(isEditable(this.question) ? ["edit"] : [])]);
    return all.map((decision) => this.#button(decision));
  }

  #button(/** @type {string} */ decision) {
    const words = h("span", {}, answerWords(decision));
    const button = h(`button.btn${isMain(decision) ? ".go" : ""}`, { type: "button", dataset: { key: decision }, onclick: () => this.#choose(decision) }, words, HINTS[decision] && h("kbd", {}, HINTS[decision]));
    if (decision === "approve") watch(() => {
      if (isCall(this.question)) say(words, approveWords(this.fields.changes));
      button.disabled = this.fields.isWrong;
      if (this.scope) this.scope.hidden = this.fields.changes.length > 0;
    });
    return button;
  }

  #choose(/** @type {string} */ decision) {
    if (decision === "pass") return this.#pass();
    if (decision === "edit") return this.fields.edit();
    if (decision === "take_as_done") return this.#take();
    return this.send(decision, decision === "approve" ? this.#approval() : {});
  }

  #approval() {
    const args = this.fields.args();
    return args ? { args } : { scope: this.scope?.querySelector("select")?.value || undefined };
  }

  #take() {
    const close = () => { fill(this.more); this.focus("take_as_done"); };
    const field = new AnswerField({ ...TAKE, onConfirm: () => this.send("take_as_done", { result: field.value }), onBack: close });
    fill(this.more, field.element);
    field.focus();
  }

  #pass() {
    const close = () => { fill(this.more); this.focus("pass"); };
    const form = new PassOn({ question: this.question, onClose: close });
    fill(this.more, form.element);
    form.focus();
  }

  #busy(/** @type {boolean} */ on) {
    fill(this.problem);
    this.element.setAttribute("aria-busy", String(on));
    for (const control of this.element.querySelectorAll("button, input, select, textarea")) /** @type {any} */ (control).disabled = on;
  }
}
