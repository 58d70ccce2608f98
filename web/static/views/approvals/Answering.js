// @ts-check
// What a question is about and the answers to it: in the approvals beside their list, and in the view of a run.

import { ArgumentList } from "../../ui/ArgumentList.js";
import { deadline, ticking } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { EXPIRIES, expiryOf, headingOf, isEditable, labelWords, lasting, mayAnswer, ownersWords, severalWords } from "../../state/inbox.js";
import { isMe, mayDecide } from "../../state/me.js";
import { effectWords } from "../../state/words.js";
import { Form } from "../../ui/Form.js";
import { AnswerBar } from "./AnswerBar.js";
import { FieldTable } from "./FieldTable.js";

export const styles = addStyles("/static/style/answers.css");

/** The rule of a call that no policy, but its tool asks about; the reason says so. */
const OWN = "tool's own";

/** The parts of an open question; they are made once for each, so that no typing is lost. */
export class Answering {
  /** @param {{row: () => any, clock: any, onAnswer: (answer: any) => void}} given `row` reads the question as it is now */
  constructor({ row, clock, onAnswer }) {
    const question = this.question = row();
    this.fields = new FieldTable(question, isEditable(question));
    this.bar = new AnswerBar({ question, fields: this.fields, onAnswer });
    this.head = this.#head(question);
    this.body = this.#body(question);
    this.why = this.#why(question);
    this.until = this.#until(question, clock);
    this.several = h("p.several", { role: "status" });
    this.foot = h("div.decide-place");
    watch(() => {
      say(this.several, severalWords(row()));
      const words = barredWords(row());
      if (this.foot.dataset.shown === words) return; // the answers stay where they are while something is typed
      this.foot.dataset.shown = words;
      fill(this.foot, words ? h("footer.decide", {}, h("p", {}, words)) : this.bar.element);
    });
  }

  /** Do what a key stands for: go to an answer, change an argument, or pass the question on. */
  press(/** @type {string} */ key) {
    if (key === "edit") this.fields.edit();
    else if (key === "pass") /** @type {HTMLElement | null} */ (this.bar.bar.querySelector("[data-key=pass]"))?.click();
    else if (key === "approve" && this.question.decisions.includes("answer")) /** @type {HTMLElement | null} */ (this.body.querySelector("input, select, textarea"))?.focus();
    else this.bar.focus(key);
    return true;
  }

  // What is asked, and about which tool.
  #head(/** @type {any} */ question) {
    const { effect, classification, name, kind } = question;
    const about = (question.description ?? question.input_schema?.description ?? "").split(/\n{2,}/)[0];
    const isCall = !question.decisions.includes("answer"), isGate = name === "approval_gate";
    return [
      icon(kind === "unknown" ? "unknown" : "waiting"),
      h("h2", { dir: "auto", tabindex: "-1" }, visible(headingOf(question))),
      !isGate && h("p.meaning", {}, isCall && effect && h(`span.badge${effect === "unsafe" ? ".is-unsafe" : ""}`, {}, effect), classification && h("span.badge", {}, visible(classification.toLowerCase())), h("code", {}, visible(name)), h("span.soft", { dir: "auto" }, visible(about)), isCall && h("span.soft", {}, effectWords(effect))),
    ];
  }

  #body(/** @type {any} */ question) {
    if (!question.decisions.includes("answer")) return h("section.block", {}, h("h3.caps", {}, question.kind === "unknown" ? "This call was cut off" : "Exactly this will happen"), this.fields.element);
    const form = new Form({ form: question.input_schema, values: undefined, onDecline: undefined, onAnswer: (/** @type {any} */ result) => this.bar.send("answer", { result }) });
    const args = question.kind === "arguments" ? [h("h3.caps", {}, "The call so far"), ArgumentList(question.arguments)] : null;
    return h("section.block", {}, args, h("h3.caps", {}, question.kind === "arguments" ? "What is missing" : "Your answer"), form.element);
  }

  #why(/** @type {any} */ { reason, rule, labels = [], kind, sentence }) {
    const isSaid = kind === "input" && !sentence && !reason.includes("\n\n");
    if (isSaid && !labels.length) return null;
    return h("section.block", {}, h("h3.caps", {}, "Why you are asked"), h("p.reason", { dir: "auto" }, rule && rule !== OWN && ["Rule ", h("code", {}, visible(rule)), ": "], visible(reason), h("span.soft", {}, " ", visible(labelWords(labels)))));
  }

  #until(/** @type {any} */ question, /** @type {any} */ clock) {
    const left = h("b");
    watch(() => {
      const { isSoon } = expiryOf(question, clock.value), ms = Date.parse(question.expires_at) - clock.value;
      say(left, isSoon ? ticking(ms) : lasting(ms));
      left.classList.toggle("bad", isSoon);
    });
    return h("p.until.soft", {}, `Without an answer by ${deadline(question.expires_at)} ${EXPIRIES[question.on_expiry] ?? "the run fails"}: `, left, " left.");
  }
}

// Why the reader has no answers here.
/** @type {(question: any) => string} */
function barredWords(question) {
  if (!mayDecide(question.principal)) return ownersWords(question.principal);
  if (mayAnswer(question)) return "";
  return isMe(question.principal) ? "Several persons have to approve this, and you are not one of them: it is your run." : "You have approved it. Another person has to, before the call is made.";
}
