// @ts-check
// The answers of a question in the conversation: their buttons, the field that one of them opens, and what is sent.

import { deadline } from "../../dom/format.js";
import { h } from "../../dom/h.js";
import { addressOf } from "../../router.js";
import { newKey, sendConfirm } from "../../services/api.js";
import { fieldsOf } from "../../state/form.js";
import { EXPIRIES, answerWords, inOrder, isMain, ownersWords } from "../../state/inbox.js";
import { mayDecide } from "../../state/me.js";
import { AnswerField, MeaningList, ScopeField, TAKE } from "../../ui/AnswerField.js";
import { Form } from "../../ui/Form.js";
import { ErrorNotice } from "../../ui/Notice.js";
import { PassOn } from "../approvals/PassOn.js";
import { isGate } from "./QuestionText.js";

/** @type {Record<string, {label: string, hint: string, confirm: string, isText?: boolean}>} */
const FIELDS = {
  take_as_done: TAKE,
  reject: { label: "Why?", hint: "The agent gets this. Leave it empty to give no reason.", confirm: "Reject", isText: true },
};

/** @typedef {{scope?: string, args?: object, message?: string, result?: any}} More What goes with a decision. */
/** @typedef {(answer: {runId: string, approvalId: string, decision: string, key: string} & More) => Promise<{by?: string}>} Send */

/** They stand in a card, which has the question and its run, and paints both; `send` sends an answer. */
export class Answers {
  /** The decision whose field is open. */ open = "";
  /** @type {AnswerField | Form | PassOn | null} */ #field = null;
  /** @type {Form | null} */ #form = null;
  /** @type {HTMLElement | null} */ #scopes = null;
  /** @type {import("../../state/story.js").Failure | null} */ #error = null;
  /** @type {Map<string, string>} */ #keys = new Map();

  constructor(/** @type {import("./ConfirmInline.js").ConfirmInline} */ card, /** @type {Send} */ send = sendConfirm) {
    this.card = card;
    this.send = send;
  }

  get offered() {
    return this.card.item.decisions ?? ["approve", "reject"];
  }

  /** The calls for which an approval is to hold, if some are chosen. */
  get scope() {
    return /** @type {HTMLSelectElement | undefined} */ (this.#scopes?.querySelector("select"))?.value;
  }

  // Several approvers approve the call as it is.
  get #mayEdit() {
    const { item } = this.card;
    return this.offered.includes("approve") && !isGate(item) && !(/** @type {number} */ (item.approvers) > 1) && fieldsOf(item.input_schema ?? {}).length > 0;
  }

  /** Return what stands below a question. */
  parts() {
    return [this.#answers(this.card.item), this.#error && h("div", { role: "alert" }, ErrorNotice(this.#error)), !this.#field && untilOf(this.card.item)];
  }

  /** Drop what was begun: the question is not open any more. */
  forget() {
    this.open = "";
    this.#field = this.#form = this.#error = null;
  }

  /** Open the field of a decision; returns whether it has one. */
  enter(/** @type {string} */ decision) {
    const isField = decision === "edit" ? this.#mayEdit : FIELDS[decision] && this.offered.includes(decision);
    if (isField) this.#enter(decision);
    return isField;
  }

  /** Show why an answer was not taken. */
  fail(/** @type {import("../../state/story.js").Failure} */ error) {
    this.#error = error;
    this.card.paint();
  }

  // The form of a question is made once, so that no typing is lost.
  #answers(/** @type {import("./QuestionText.js").Question} */ item) {
    if (!mayDecide(this.card.story.principal)) return h("p.may-answer", {}, ownersWords(/** @type {string} */ (this.card.story.principal)));
    if (this.#field) return this.#field.element;
    const { offered } = this;
    if (item.form) return (this.#form ??= new Form({ form: item.form, onAnswer: (result) => this.#decide("answer", { result }), onDecline: offered.includes("reject") && (() => this.#enter("reject")) })).element;
    const shown = inOrder([...offered, ...(this.#mayEdit ? ["edit"] : []), ...(this.send === sendConfirm ? ["pass"] : [])]);
    const choice = (/** @type {string} */ decision) => h(`button.btn${isMain(decision) ? ".go" : ""}`, { type: "button", dataset: { key: decision }, onclick: () => this.#choose(decision) }, answerWords(decision));
    this.#scopes ??= ScopeField(item, () => this.card.touched());
    return h("div.choices", {}, h("div.row", {}, this.#scopes, shown.map(choice)), MeaningList(shown));
  }

  #choose(/** @type {string} */ decision) {
    if (FIELDS[decision] || decision === "edit" || decision === "pass") return this.#enter(decision);
    return this.#decide(decision, decision === "approve" && this.scope ? { scope: this.scope } : {});
  }

  #enter(/** @type {string} */ decision) {
    this.#error = null;
    this.open = decision;
    this.#field = this.#fieldOf(decision, () => this.#close());
    this.card.paint();
    this.#field.focus();
    this.card.touched();
  }

  #fieldOf(/** @type {string} */ decision, /** @type {() => void} */ onBack) {
    const { story, item: { approval_id, input_schema: form, arguments: values = {} } } = this.card;
    const isSame = (/** @type {unknown} */ args) => JSON.stringify(args) === JSON.stringify(values);
    if (decision === "edit") return new Form({ form: /** @type {import("../../state/form.js").Schema} */ (form), values, words: ["Approve with these", "Back"], onAnswer: (args) => this.#decide("approve", isSame(args) ? {} : { args }), onDecline: onBack });
    if (decision === "pass") return new PassOn({ question: { run_id: story.run_id, approval_id }, onClose: onBack });
    const field = new AnswerField({ ...FIELDS[decision], onConfirm: () => this.#decide(decision, { [decision === "reject" ? "message" : "result"]: field.value }), onBack });
    return field;
  }

  #close() {
    const decision = this.open;
    this.open = "";
    this.#field = this.#error = null;
    this.card.paint();
    this.card.focus(decision);
    this.card.touched();
  }

  async #decide(/** @type {string} */ decision, /** @type {More} */ more) {
    const { card } = this, { item } = card;
    const held = card.held();
    card.busy(true);
    try {
      const { by } = await this.send({ runId: card.story.run_id, approvalId: item.approval_id, decision, ...more, key: this.#keyOf(decision, more) });
      if (decision === "approve" && /** @type {number} */ (item.approvers) > 1) return; // it may not be the last one needed: its event says so
      card.answered({ decision, by, mine: true, scope: more.scope, edited: more.args, word: more.message, answer: decision === "answer" ? more.result : undefined });
    } catch (/** @type {any} */ error) {
      if (error.code === "approval_decided") return card.answered({ decision: error.facts.decision, by: error.facts.by, late: true });
      this.fail(error);
      if (held) card.focus(held);
    } finally {
      card.busy(false);
    }
  }

  // The same answer sent again is the same request, so that a lost reply does no harm.
  #keyOf(/** @type {string} */ decision, /** @type {More} */ more) {
    const body = JSON.stringify([decision, more]);
    if (!this.#keys.has(body)) this.#keys.set(body, newKey());
    return /** @type {string} */ (this.#keys.get(body));
  }
}

function untilOf(/** @type {import("./QuestionText.js").Question} */ { expires_at: at, on_expiry: then, approval_id: approvalId }) {
  return at && h("p.hint", {}, `Without an answer by ${deadline(at)} ${EXPIRIES[/** @type {string} */ (then)] ?? "the run fails"}. `, h("a.quiet.in-inbox", { href: addressOf("/approvals/:approvalId", { approvalId }) }, "In the approvals"));
}
