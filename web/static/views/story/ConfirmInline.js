// @ts-check
// A call a person decides about: exactly which call, why, and the answers that may be given.

import { fill, h, icon } from "../../dom/h.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { getQuestions } from "../../services/api.js";
import { keyed } from "../../state/inbox.js";
import { mayDecide } from "../../state/me.js";
import { isOpen } from "../../state/story.js";
import { Answers } from "./Answers.js";
import { AnswerText, QuestionText, effectOf, isGate } from "./QuestionText.js";

addStyles("/static/style/answers.css");

/** @typedef {import("./QuestionText.js").Question} Item */
/** @typedef {{run_id: string, principal?: string, items?: import("../../state/story.js").Item[]}} Asking The run that asks; of one that a link is for, no items are known. */

/**
 * A question in the conversation, without the answers where the reader may not give one. It is painted anew only when
 * what it says changes, so that no typing is lost.
 */
export class ConfirmInline {
  #shown = "";
  #isRead = false;

  /** @param {Asking} story @param {unknown} _again @param {{onAnswered?: () => void, onTouched?: () => void, send?: import("./Answers.js").Send}} [given] `send` sends an answer */
  constructor(story, _again, given = {}) {
    this.story = story;
    /** @type {Item} */ this.item = /** @type {any} */ (null);
    this.given = given;
    this.element = h("section.tool.ask", { tabindex: "-1" });
    this.answers = new Answers(this, given.send);
  }

  update(/** @type {Item} */ item) {
    this.item = item;
    const key = JSON.stringify([item.decision, item.by, item.mine, item.late, item.over, item.arguments, item.edited, item.word, item.approved_by, item.scope, item.until, item.sentence, item.labels]);
    if (key === this.#shown) return;
    this.#shown = key;
    if (isOpen(item) && !item.form && !this.#isRead) this.#readMore(item);
    if (!isOpen(item)) this.answers.forget();
    this.paint();
  }

  /** Open the field of the decision that a key stands for, or focus its button: no single key decides. */
  press(/** @type {string} */ decision) {
    const { answers, element } = this;
    if (!isOpen(this.item)) return;
    if (!mayDecide(this.story.principal)) element.focus();
    else if (!answers.enter(decision)) (/** @type {HTMLElement | null} */ (element.querySelector(`[data-key="${keyed(decision, answers.offered)}"], form :is(input, select, textarea)`)) ?? element).focus();
    element.scrollIntoView({ block: "nearest" });
  }

  /** Return whether the person has not begun to answer here: no field is open, no scope chosen, and nothing is being sent. */
  isUntouched() {
    return !this.answers.open && !this.answers.scope && this.element.getAttribute("aria-busy") !== "true";
  }

  /** Show the answer that the server took together with others, or why it took none: {decision, by} or {code, detail}. */
  settle(/** @type {any} */ { decision, by, code, detail }) {
    if (decision) this.answered({ decision, by, mine: true });
    else if (isOpen(this.item) && code !== "approval_decided") this.answers.fail({ code, message: detail }); // else its event says by whom
  }

  /** Show an answer that was taken, with what is known of it. */
  answered(/** @type {import("../../state/story.js").Answered} */ fields) {
    this.update(Object.assign(this.item, fields));
    this.given.onAnswered?.();
  }

  /** Tell the turn that the card has another size, or can be answered together with others no more. */
  touched() {
    this.given.onTouched?.();
  }

  /** Let nothing be pressed while an answer is on its way. */
  busy(/** @type {boolean} */ on) {
    // What is disabled loses the focus; the card keeps it meanwhile.
    if (on && this.held()) this.element.focus();
    this.element.setAttribute("aria-busy", String(on));
    for (const control of /** @type {NodeListOf<HTMLButtonElement>} */ (this.element.querySelectorAll("button, textarea, input, select"))) control.disabled = on;
    this.touched();
  }

  /** Show what the question says by now. */
  paint() {
    const { item, element } = this, held = this.held(), call = this.#call();
    element.dataset.open = isOpen(item) ? "yes" : "";
    element.setAttribute("aria-label", `${item.name ?? "The run"}: ${stateOf(item)}`);
    fill(element, isOpen(item) && headOf(item, effectOf(item, call)), h("div.ask-body", {}, isOpen(item) ? [QuestionText(item, call, this.answers.open === "edit"), this.answers.parts()] : AnswerText(item)));
    if (held) this.focus(held);
  }

  /** Return what of the card has the focus: a key, "self", or "" when nothing of it has. */
  held() {
    return this.element.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key ?? "self" : "";
  }

  focus(/** @type {string} */ key) {
    (/** @type {HTMLElement | null} */ (this.element.querySelector(`[data-key="${key}"]`)) ?? this.element).focus();
  }

  // The event has no sentence, and nothing of what the run had read: lists of questions do. Without them it can be answered, too.
  async #readMore(/** @type {Item} */ item) {
    this.#isRead = true;
    if (item.sentence || isGate(item)) return;
    const questions = await questionsOf(this.story.run_id).catch(() => []);
    const { sentence, labels } = questions.find((question) => question.approval_id === item.approval_id) ?? {};
    if (!sentence && !labels?.length) return;
    this.update(Object.assign(item, { sentence, labels }));
    this.touched();
  }

  // The call as its tool card has it, which this card stands for while it is open.
  #call() {
    return this.story.items?.find((item) => item.kind === "tool" && item.call_id === this.item.call_id) ?? {};
  }
}

/** @type {(item: Item, effect: string) => HTMLElement} */
function headOf(item, effect) {
  return h("div.tool-head", {}, icon("waiting"), h("span.tool-name", {}, visible(isGate(item) ? "Approval" : item.name ?? "decision")), h(`span.badge${effect === "unsafe" ? ".is-unsafe" : ""}`, {}, [effect, stateOf(item)].filter(Boolean).join(" · ")));
}

function stateOf(/** @type {Item} */ item) {
  if (item.decision) return "answered";
  return item.over ? "not answered" : "needs an answer";
}

// The questions of a run, which its cards ask for at the same time, are read once.
/** @type {Map<string, Promise<any[]>>} */
const reads = new Map();
function questionsOf(/** @type {string} */ runId) {
  if (!reads.has(runId)) reads.set(runId, getQuestions(runId).finally(() => reads.delete(runId)));
  return /** @type {Promise<any[]>} */ (reads.get(runId));
}
