// A call a person decides about: exactly which call, why, and the answers that may be given.

import { fill, h, icon } from "../../dom/h.js";
import { deadline } from "../../dom/format.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { getQuestions, newKey, sendConfirm } from "../../services/api.js";
import { defaultsOf, fieldsOf } from "../../state/form.js";
import { EXPIRIES, MARKS, answerWords, headingOf, inOrder, isMain, keyed, labelWords, ownersWords, severalWords } from "../../state/inbox.js";
import { mayDecide } from "../../state/me.js";
import { isOpen } from "../../state/story.js";
import { byWords, decisionWords, effectWords, errorWords } from "../../state/words.js";
import { Form } from "../../ui/Form.js";
import { PassOn } from "../approvals/PassOn.js";
import { AnswerField, MeaningList, ScopeField, TAKE } from "../../ui/AnswerField.js";
import { ArgumentList } from "../../ui/ArgumentList.js";
import { Notice } from "../../ui/Notice.js";
import { policyOf } from "./ToolCard.js";

addStyles("/static/style/answers.css");

const FIELDS = {
  take_as_done: TAKE,
  reject: { label: "Why?", hint: "The agent gets this. Leave it empty to give no reason.", confirm: "Reject", isText: true },
};

/**
 * A question in the conversation, without the answers where the reader may not give one. It is painted anew only when
 * what it says changes, so that no typing is lost.
 */
export class ConfirmInline {
  #item = null;
  #field = null;
  #form = null;
  #scopes = null;
  #error = null;
  #shown = "";
  #isRead = false;
  #keys = new Map();

  constructor(story, _again, { onAnswered, onTouched, send = sendConfirm } = {}) {
    Object.assign(this, { story, onAnswered, onTouched, send });
    this.element = h("section.tool.ask", { tabindex: "-1" });
  }

  update(item) {
    this.#item = item;
    const key = JSON.stringify([item.decision, item.by, item.mine, item.late, item.over, item.arguments, item.edited, item.word, item.approved_by, item.scope, item.until, item.sentence, item.labels]);
    if (key === this.#shown) return;
    this.#shown = key;
    if (isOpen(item) && !item.form && !this.#isRead) this.#readMore(item);
    if (!isOpen(item)) this.#field = this.#form = this.#error = null;
    this.#paint();
  }

  /** Open the field of the decision that a key stands for, or focus its button: no single key decides. */
  press(decision) {
    if (!isOpen(this.#item)) return;
    if (!this.#mayAnswer()) this.element.focus();
    else if (decision === "edit" && this.#mayEdit()) this.#open("edit");
    else if (FIELDS[decision] && this.#offered().includes(decision)) this.#open(decision);
    else (this.element.querySelector(`[data-key="${keyed(decision, this.#offered())}"], form :is(input, select, textarea)`) ?? this.element).focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Return whether the person has not begun to answer here: no field is open, no scope chosen, and nothing is being sent. */
  isUntouched() {
    return !this.#field && !this.#scope() && this.element.getAttribute("aria-busy") !== "true";
  }

  /** Show the answer that the server took together with others, or why it took none: {decision, by} or {code, detail}. */
  settle({ decision, by, code, detail }) {
    if (decision) return this.#answered({ decision, by, mine: true });
    if (!isOpen(this.#item) || code === "approval_decided") return; // its event says by whom
    this.#error = { code, message: detail };
    this.#paint();
  }

  #offered() {
    return this.#item.decisions ?? ["approve", "reject"];
  }

  #mayAnswer() {
    return mayDecide(this.story.principal);
  }

  // The event has no sentence, and nothing of what the run had read: lists of questions do. Without them it can be answered, too.
  async #readMore(item) {
    this.#isRead = true;
    if (item.sentence || isGate(item)) return;
    const questions = await questionsOf(this.story.run_id).catch(() => []);
    const { sentence, labels } = questions.find((question) => question.approval_id === item.approval_id) ?? {};
    if (!sentence && !labels?.length) return;
    this.update(Object.assign(item, { sentence, labels }));
    this.onTouched?.();
  }

  // Several approvers approve the call as it is.
  #mayEdit() {
    const { approvers, input_schema: schema } = this.#item;
    return this.#offered().includes("approve") && !isGate(this.#item) && !(approvers > 1) && fieldsOf(schema ?? {}).length > 0;
  }

  // The call as its tool card has it, which this card stands for while it is open.
  #call() {
    return this.story.items?.find((item) => item.kind === "tool" && item.call_id === this.#item.call_id) ?? {};
  }

  #paint() {
    const item = this.#item;
    const held = this.#held();
    this.element.dataset.open = isOpen(item) ? "yes" : "";
    this.element.setAttribute("aria-label", `${item.name ?? "The run"}: ${stateOf(item)}`);
    fill(this.element, this.#header(item), h("div.ask-body", {}, isOpen(item) ? this.#question(item) : this.#outcome(item)));
    if (held) this.#focus(held);
  }

  // Returns what of the card has the focus: a key, "self", or "" when nothing of it has.
  #held() {
    return this.element.contains(document.activeElement) ? document.activeElement.dataset.key ?? "self" : "";
  }

  #focus(key) {
    (this.element.querySelector(`[data-key="${key}"]`) ?? this.element).focus();
  }

  #header(item) {
    if (!isOpen(item)) return null;
    const effect = isGate(item) ? "" : this.#effect();
    return h("div.tool-head", {}, icon("waiting"), h("span.tool-name", {}, visible(isGate(item) ? "Approval" : item.name ?? "decision")), h(`span.badge${effect === "unsafe" ? ".is-unsafe" : ""}`, {}, [effect, stateOf(item)].filter(Boolean).join(" · ")));
  }

  #effect() {
    return this.#item.effect ?? this.#call().effect;
  }

  // Of a gate no call is made: the question is whether the workflow continues, about the data that it asks with.
  #question(item) {
    if (item.form) return this.#asked(item);
    const { message, ...data } = item.arguments ?? {};
    const args = isGate(item) ? data : item.arguments, isEdit = this.#field?.decision === "edit";
    return [
      h("div", {}, h("p.ask-title", { dir: "auto" }, visible(headingOf(item))), this.#meaning(item)),
      !isEdit && (args === item.arguments || Object.keys(data).length > 0) && ArgumentList(args, defaultsOf(item.input_schema ?? {}, item.arguments ?? {})),
      h("div.ask-why", {}, item.reason && h("p", {}, visible(item.reason)), item.labels?.length > 0 && h("p", {}, visible(labelWords(item.labels))), policyOf(this.#call(), "asked")),
      item.approvers > 1 && h("p", {}, severalWords(item)),
      ...this.#tail(item, this.#answers()),
    ];
  }

  #tail(item, answers) {
    return [answers, this.#error && h("div", { role: "alert" }, Notice({ text: errorWords(this.#error), code: this.#error.code })), !this.#field && untilOf(item)];
  }

  // What the tool does, in its author's words, and what its effect class says about a mistake.
  #meaning({ input_schema: schema }) {
    const effect = isGate(this.#item) ? "" : effectWords(this.#effect());
    const about = schema?.description?.split(/\n{2,}/).filter(Boolean) ?? [];
    return [about.map((paragraph) => h("p.ask-about", { dir: "auto" }, visible(paragraph))), effect && h("p.ask-effect", {}, effect)];
  }

  // What a tool asks, or what a call lacks: the form is made once, so that no typing is lost.
  #asked(item) {
    const isMissing = item.ask === "arguments";
    const [title, more] = isMissing ? ["What is missing?", item.reason] : split(item.reason ?? "A question");
    this.#form ??= new Form({ form: item.form, onAnswer: (result) => this.#decide("answer", { result }), onDecline: this.#offered().includes("reject") && (() => this.#open("reject")) });
    return [
      h("div", {}, h("p.ask-title", {}, visible(title)), more && h("p", {}, visible(more))),
      isMissing && ArgumentList(item.arguments),
      ...this.#tail(item, !this.#mayAnswer() || this.#field ? this.#answers() : this.#form.element),
    ];
  }

  #answers() {
    if (!this.#mayAnswer()) return h("p.may-answer", {}, ownersWords(this.story.principal));
    if (this.#field) return this.#field.element;
    const offered = inOrder([...this.#offered(), ...(this.#mayEdit() ? ["edit"] : []), ...(this.send === sendConfirm ? ["pass"] : [])]);
    const choice = (decision) => h(`button.btn${isMain(decision) ? ".go" : ""}`, { type: "button", dataset: { key: decision }, onclick: () => this.#choose(decision) }, answerWords(decision));
    this.#scopes ??= ScopeField(this.#item, () => this.onTouched?.());
    return h("div.choices", {}, h("div.row", {}, this.#scopes, offered.map(choice)), MeaningList(offered));
  }

  #scope() {
    return this.#scopes?.querySelector("select").value;
  }

  #choose(decision) {
    if (FIELDS[decision] || decision === "edit" || decision === "pass") return this.#open(decision);
    return this.#decide(decision, decision === "approve" && this.#scope() ? { scope: this.#scope() } : {});
  }

  #outcome(item) {
    const how = item.edited && item.decision !== "answer" ? " with other arguments" : "";
    const mark = icon(item.decision ? MARKS[item.decision] ?? "succeeded" : "cancelled");
    const outcome = item.decision
      ? h("p", {}, mark, item.late && "Another answer came first: ", h("strong", {}, decisionWords(item.decision) + how), ` — decided ${byWords(item)}.`)
      : h("p", {}, mark, "The run ended before it was answered.");
    if (item.scope) outcome.append(` It holds for later calls ${item.scope === "thread" ? "in this conversation" : "of this tool"}${item.until ? ` until ${deadline(item.until)}` : ""}.`);
    return [outcome, item.decision === "answer" && item.answer && ArgumentList(item.answer), item.decision !== "answer" && item.edited && ArgumentList(item.edited), item.word && h("p.faint", {}, `“${visible(item.word)}”`), h("details", {}, h("summary", {}, "What was asked"), item.reason && h("p", {}, visible(item.reason)), ArgumentList(item.arguments, defaultsOf(item.input_schema ?? {}, item.arguments ?? {})))];
  }

  #open(decision) {
    this.#error = null;
    const onBack = () => this.#close(decision);
    if (decision === "edit") this.#field = this.#editForm(onBack);
    else if (decision === "pass") this.#field = new PassOn({ question: { run_id: this.story.run_id, approval_id: this.#item.approval_id }, onClose: onBack });
    else this.#field = new AnswerField({ ...FIELDS[decision], onConfirm: () => this.#confirm(decision), onBack });
    this.#field.decision = decision;
    this.#paint();
    this.#field.focus();
    this.onTouched?.();
  }

  #editForm(onBack) {
    const { input_schema: form, arguments: values = {} } = this.#item;
    const isSame = (args) => JSON.stringify(args) === JSON.stringify(values);
    return new Form({ form, values, words: ["Approve with these", "Back"], onAnswer: (args) => this.#decide("approve", isSame(args) ? {} : { args }), onDecline: onBack });
  }

  #close(decision) {
    this.#field = this.#error = null;
    this.#paint();
    this.#focus(decision);
    this.onTouched?.();
  }

  #confirm(decision) {
    const { value } = this.#field;
    return decision === "reject" ? this.#decide(decision, { message: value }) : this.#decide(decision, { result: value });
  }

  async #decide(decision, more = {}) {
    const item = this.#item;
    const held = this.#held();
    this.#busy(true);
    try {
      const { by } = await this.send({ runId: this.story.run_id, approvalId: item.approval_id, decision, ...more, key: this.#keyOf(decision, more) });
      if (decision === "approve" && item.approvers > 1) return; // it may not be the last one needed: its event says so
      this.#answered({ decision, by, mine: true, scope: more.scope, edited: more.args, word: more.message, answer: decision === "answer" ? more.result : undefined });
    } catch (error) {
      if (error.code === "approval_decided") return this.#answered({ decision: error.facts.decision, by: error.facts.by, late: true });
      this.#error = error;
      this.#paint();
      if (held) this.#focus(held);
    } finally {
      this.#busy(false);
    }
  }

  #answered(fields) {
    Object.assign(this.#item, fields);
    this.update(this.#item);
    this.onAnswered?.();
  }

  // The same answer sent again is the same request, so that a lost reply does no harm.
  #keyOf(decision, more) {
    const body = JSON.stringify([decision, more]);
    if (!this.#keys.has(body)) this.#keys.set(body, newKey());
    return this.#keys.get(body);
  }

  #busy(on) {
    // What is disabled loses the focus; the card keeps it meanwhile.
    if (on && this.#held()) this.element.focus();
    this.element.setAttribute("aria-busy", String(on));
    for (const control of this.element.querySelectorAll("button, textarea, input, select")) control.disabled = on;
    this.onTouched?.();
  }
}

function untilOf({ expires_at: at, on_expiry: then, approval_id: approvalId }) {
  return at && h("p.hint", {}, `Without an answer by ${deadline(at)} ${EXPIRIES[then] ?? "the run fails"}. `, h("a.quiet.in-inbox", { href: addressOf("/approvals/:approvalId", { approvalId }) }, "In the approvals"));
}

function isGate({ name }) {
  return name === "approval_gate";
}

function stateOf(item) {
  if (item.decision) return "answered";
  return item.over ? "not answered" : "needs an answer";
}

// The questions of a run, which its cards ask for at the same time, are read once.
const reads = new Map();
function questionsOf(runId) {
  if (!reads.has(runId)) reads.set(runId, getQuestions(runId).finally(() => reads.delete(runId)));
  return reads.get(runId);
}

// What stands behind the first empty line of a question is not part of its title: definitions, a server's longer words.
function split(reason) {
  const end = reason.indexOf("\n\n");
  return end < 0 ? [reason, ""] : [reason.slice(0, end), reason.slice(end).trim()];
}
