// @ts-check
import { AnswerField } from "../../components/AnswerField.js";
import { Notice } from "../../components/Notice.js";
import { span } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { newKey, sendConfirm } from "../../services/api.js";
import { approveWords, isCall } from "../../state/inbox.js";
import { decisionWords, errorWords } from "../../state/words.js";
import { PassOn } from "./PassOn.js";

const SCOPES = /** @type {Record<string, string>} */ ({ thread: "its calls in this conversation", tool: "all calls of this agent" });
const MEANINGS = /** @type {Record<string, string>} */ ({
  run_again: "The call is made once more. If it took effect before, it takes effect twice.",
  take_as_done: "The call is not made again; the agent continues with the result you give.",
  fail: "Nothing more is done; the run ends as failed.",
});

/** The answers to a question, at the foot of it. */
export class AnswerBar {
  /** @type {Map<string, string>} The same answer sent again is the same request. */
  #keys = new Map();

  /** @param {{question: any, fields: import("./FieldTable.js").FieldTable, onAnswer: (answer: any) => void, onEdit: (() => void) | null}} given */
  constructor({ question, fields, onAnswer, onEdit }) {
    this.question = question;
    this.fields = fields;
    this.onAnswer = onAnswer;
    this.onEdit = onEdit;
    this.note = h("input.note", { type: "text", maxlength: "2000", "aria-label": "A word for the log", placeholder: "A word for the log. With a rejection the agent gets it, too.", autocomplete: "off" });
    this.problem = h("div", { role: "alert" });
    this.more = h("div.answer-more");
    this.scope = this.#scope();
    this.passOn = h("button.btn", { type: "button", dataset: { key: "pass" }, onclick: () => this.#pass() }, "Pass on ", h("kbd", {}, "p"));
    this.bar = h("div.answers", {}, this.scope, this.#buttons());
    const meanings = question.decisions.filter((/** @type {string} */ decision) => MEANINGS[decision]);
    this.element = h("footer.decide", {}, this.problem, this.more, this.note, meanings.length > 0 && h("dl.meanings", {}, meanings.map((/** @type {string} */ decision) => [h("dt", {}, decisionWords(decision)), h("dd", {}, MEANINGS[decision])])), this.bar);
  }

  /** Move the focus to an answer: no single key decides. */
  focus(/** @type {string} */ decision) {
    const button = this.bar.querySelector(`[data-key="${decision}"]`) ?? this.bar.querySelector(".btn:not([data-key=pass])");
    /** @type {HTMLElement | null} */ (button)?.focus();
  }

  /** Send an answer; `onAnswer` gets what came of it, and what is wrong is shown here. */
  async send(/** @type {string} */ decision, /** @type {any} */ more = {}) {
    const { run_id: runId, approval_id: approvalId, digest } = this.question;
    const body = { decision, message: this.note.value.trim() || undefined, digest, ...more };
    const key = JSON.stringify(body);
    this.#keys.set(key, this.#keys.get(key) ?? newKey());
    this.#busy(true);
    try {
      const { by } = await sendConfirm({ runId, approvalId, key: this.#keys.get(key), ...body });
      this.onAnswer({ decision, by, isMine: true, message: body.message, changed: more.args && Object.keys(more.args), isOneOfSeveral: decision === "approve" && this.question.approvers > 1 });
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
    const button = (/** @type {string} */ decision, /** @type {string} */ look, /** @type {string} */ hint, /** @type {() => void} */ onclick) => h(`button.${look}`, { type: "button", dataset: { key: decision }, onclick }, h("span", {}, decisionWords(decision)), hint && h("kbd", {}, hint));
    if (decisions.includes("answer")) return [decisions.includes("reject") && button("reject", "btn", "r", () => this.send("reject")), this.passOn];
    if (!decisions.includes("approve")) return [this.passOn, decisions.filter((/** @type {string} */ each) => each !== "take_as_done").map((/** @type {string} */ each) => button(each, "btn", "", () => this.send(each))), decisions.includes("take_as_done") && button("take_as_done", "btn.go", "", () => this.#take())];
    const approve = button("approve", "btn.go", "a", () => this.send("approve", this.#approval()));
    watch(() => {
      say(/** @type {HTMLElement} */ (approve.firstChild), isCall(this.question) ? approveWords(this.fields.changes) : "Approve");
      approve.disabled = this.fields.isWrong;
      if (this.scope) this.scope.hidden = this.fields.changes.length > 0;
    });
    const reject = button("reject", "btn", "r", () => this.send("reject"));
    return this.onEdit ? [this.passOn, reject, h("button.btn", { type: "button", dataset: { key: "edit" }, onclick: this.onEdit }, "Edit ", h("kbd", {}, "e")), approve] : [reject, this.passOn, approve];
  }

  #approval() {
    const args = this.fields.args();
    return args ? { args } : { scope: this.scope?.querySelector("select")?.value || undefined };
  }

  // An approval may hold for later calls too, where the tool offers it; not together with changes.
  #scope() {
    const { scopes = [], scope_s: seconds, approvers } = this.question;
    if (!scopes.length || approvers > 1) return null;
    return h("label.scope-field", {}, "holds for ", h("select", {}, h("option", { value: "" }, "this call only"), scopes.map((/** @type {string} */ scope) => h("option", { value: scope }, `${SCOPES[scope] ?? scope}, ${span(seconds)}`))));
  }

  #take() {
    const close = () => { fill(this.more); this.focus("take_as_done"); };
    const field = new AnswerField({ label: "What did the call return?", hint: "JSON or text, as the agent should read it. Leave it empty if you do not know.", confirm: "Take as done", onConfirm: () => this.send("take_as_done", { result: field.value }), onBack: close });
    fill(this.more, field.element);
    field.focus();
  }

  #pass() {
    const close = () => { fill(this.more); this.passOn.focus(); };
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
