// @ts-check
// What a question is about and the answers to it: in the approvals beside their list, and in the view of a run.

import { ArgumentList } from "../../components/ArgumentList.js";
import { deadline, ticking } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { expiryOf, isEditable, lasting, mayAnswer } from "../../state/inbox.js";
import { isMe, mayDecide, ownerOf } from "../../state/me.js";
import { Form } from "../../ui/Form.js";
import { AnswerBar } from "./AnswerBar.js";
import { FieldTable } from "./FieldTable.js";

export const styles = addStyles("/static/style/answers.css");

/** The rule of a call that no policy, but its tool asks about; the reason says so. */
const OWN = "tool's own";
const EXPIRIES = /** @type {Record<string, string>} */ ({ reject: "the call is rejected", take_default: "the call is not made and gets its default result" });

/** The parts of an open question; they are made once for each, so that no typing is lost. */
export class Answering {
  /** @param {{row: () => any, clock: any, onAnswer: (answer: any) => void, hasEdit?: boolean}} given `row` reads the question as it is now */
  constructor({ row, clock, onAnswer, hasEdit = false }) {
    const question = this.question = row();
    this.fields = new FieldTable(question, isEditable(question));
    this.bar = new AnswerBar({ question, fields: this.fields, onAnswer, onEdit: hasEdit && isEditable(question) ? () => this.fields.edit() : null });
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
    else if (key === "pass") this.bar.passOn.click();
    else this.bar.focus(key);
    return true;
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
    return h("section.block", {}, h("h3.caps", {}, "Why you are asked"), h("p.reason", { dir: "auto" }, rule && rule !== OWN && ["Rule ", h("code", {}, visible(rule)), ": "], visible(reason), labels.length > 0 && [h("span.soft", { title: "Of the call and of what the run had read, as tools label it" }, " Labels "), labels.map((/** @type {string} */ label) => h("span.badge", {}, visible(label)))]));
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
  if (!mayDecide(question.principal)) return `You may not answer this. Its owner, ${visible(ownerOf(question.principal))}, may, and so may everyone with the role approver or admin.`;
  if (mayAnswer(question)) return "";
  return isMe(question.principal) ? "Several persons have to approve this, and you are not one of them: it is your run." : "You have approved it. Another person has to, before the call is made.";
}

/** @type {(question: any) => string} */
function severalWords({ approvers, approved_by: names = [] }) {
  if (!(approvers > 1)) return "";
  const given = names.length ? `${names.length} of ${approvers} have approved it: ${names.map((/** @type {string} */ name) => visible(name)).join(", ")}.` : `${approvers} persons have to approve it.`;
  return `${given} The owner of the run is none of them.`;
}
