// @ts-check
// One question in full: what would happen, why a person is asked, why the agent wants it, and the answers.

import { Form } from "../../ui/Form.js";
import { ArgumentList } from "../../components/ArgumentList.js";
import { deadline, exactly, ago, ticking } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf, threadHash } from "../../router.js";
import { expiryOf, isEditable, lasting, mayAnswer, sentenceOf } from "../../state/inbox.js";
import { isMe, ownerOf, threadKey } from "../../state/me.js";
import { effectWords } from "../../state/words.js";
import { AnswerBar } from "./AnswerBar.js";
import { FieldTable } from "./FieldTable.js";
import { Past } from "./Past.js";
import { Story } from "./Story.js";

/** The rule of a call that no policy, but its tool asks about; the reason says so. */
const OWN = "tool's own";
const EXPIRIES = /** @type {Record<string, string>} */ ({ reject: "the call is rejected", take_default: "the call is not made and gets its default result" });

/** The pane of an open question; it is made once for each, so that no typing is lost. */
export class Question {
  /** @param {{row: import("../../dom/live.js").Signal<any>, app: any, clock: any, onAnswer: (question: any, answer: any) => void}} given */
  constructor({ row, app, clock, onAnswer }) {
    const question = row.peek().question;
    this.question = question;
    this.fields = new FieldTable(question, isEditable(question));
    this.bar = new AnswerBar({ question, fields: this.fields, onAnswer: (answer) => onAnswer(question, answer) });
    const several = h("p.several", { role: "status" });
    const foot = h("div.decide-place");
    this.element = h("section.right", { "aria-label": "The chosen question" },
      h("article.detail", { tabindex: "0", role: "region", "aria-label": "The question" }, h("a.back.quiet", { href: "#/approvals" }, "All open questions"), this.#head(question, app, clock), several, this.#body(question), this.#why(question), new Story(question).element, question.kind === "call" && new Past(question.name).element, this.#until(question, clock)),
      foot);
    watch(() => {
      const latest = row.value.question;
      say(several, severalWords(latest));
      const words = mayAnswer(latest) ? "" : isMe(latest.principal) ? "Several persons have to approve this, and you are not one of them: it is your run." : "You have approved it. Another person has to, before the call is made.";
      if (foot.dataset.shown === words) return; // the answers stay where they are while something is typed
      foot.dataset.shown = words;
      fill(foot, words ? h("footer.decide", {}, h("p", {}, words)) : this.bar.element);
    });
  }

  /** Do what a key stands for: go to an answer, change an argument, or pass the question on. */
  press(/** @type {string} */ key) {
    if (key === "edit") this.fields.edit();
    else if (key === "pass") this.bar.passOn.click();
    else this.bar.focus(key);
    return true;
  }

  /** @param {any} question @param {any} app @param {any} clock */
  #head(question, app, clock) {
    const time = h("span.faint", { title: exactly(question.asked_at) });
    watch(() => say(time, ago(question.asked_at, clock.value)));
    const { effect, classification } = question;
    const about = (question.description ?? question.input_schema?.description ?? "").split(/\n{2,}/)[0];
    const isGate = question.name === "approval_gate", isForm = question.decisions.includes("answer");
    return h("header", {},
      h("p.who-asks", {}, icon(question.kind === "unknown" ? "unknown" : "waiting"), h("span", {}, h("b", {}, visible(app.nameOf(question.agent))), " asks, for ", h("b", {}, visible(ownerOf(question.principal)))), time,
        h("span.links", {}, h("a.quiet", { href: threadHash(threadKey(question.thread_id, question.principal), question.run_id) }, "Open the conversation"), h("a.quiet", { href: addressOf("/run/:runId", { runId: question.run_id }), dataset: { key: "run" } }, "Open the run"))),
      h("h2", { dir: "auto", tabindex: "-1" }, visible(sentenceOf(question)), question.kind === "call" && !isGate && question.sentence ? "?" : ""),
      h("p.meaning", {}, !isGate && !isForm && effect && h(`span.badge${effect === "unsafe" ? ".is-unsafe" : ""}`, {}, effect), classification && h("span.badge", {}, visible(classification.toLowerCase())), !isGate && h("code", {}, visible(question.name)), h("span.soft", { dir: "auto" }, visible(about)), !isGate && !isForm && h("span.soft", {}, effectWords(effect))));
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

/** @type {(question: any) => string} */
function severalWords({ approvers, approved_by: names = [] }) {
  if (!(approvers > 1)) return "";
  const given = names.length ? `${names.length} of ${approvers} have approved it: ${names.map((/** @type {string} */ name) => visible(name)).join(", ")}.` : `${approvers} persons have to approve it.`;
  return `${given} The owner of the run is none of them.`;
}
