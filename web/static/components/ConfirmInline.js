// A call that asks first: exactly what will happen, and the decisions that may be given.

import { fill, h, icon } from "../dom/h.js";
import { ticking } from "../dom/format.js";
import { visible } from "../dom/visible.js";
import { sendConfirm } from "../services/api.js";
import { Notice } from "./Notice.js";

const WORDS = { approve: "Approve", reject: "Reject", run_again: "Run it again", take_as_done: "Take it as done", fail: "Let it fail" };

/** Return the arguments of a call, one line each, nothing shortened. */
export function ArgumentList(args) {
  const entries = Object.entries(args ?? {});
  if (!entries.length) return h("p.faint", {}, "No arguments.");
  return h("dl.args", {}, entries.map(([name, value]) => [h("dt", {}, visible(name)), h("dd", {}, visible(typeof value === "string" ? value : JSON.stringify(value, null, 2)))]));
}

/** An approval in the conversation; its keys are a, e and r while it has the focus or is the only one. */
export class ConfirmInline {
  #item = null;
  #editing = false;
  #busy = false;
  #error = null;

  constructor(story) {
    this.story = story;
    this.element = h("section.tool.ask", { "aria-label": "A decision is asked for" });
  }

  update(item) {
    this.#item = item;
    this.#paint();
  }

  /** Give a decision as if its button had been pressed; "edit" opens the arguments. */
  press(decision) {
    if (this.#item.decision || this.#busy) return;
    if (decision === "edit") this.#edit(true);
    else if (this.#allowed().includes(decision)) this.#decide(decision);
  }

  #allowed() {
    return this.#item.decisions ?? ["approve", "reject"];
  }

  #paint() {
    const item = this.#item;
    this.element.classList.toggle("is-decided", Boolean(item.decision));
    this.element.dataset.open = item.decision ? "" : "yes";
    fill(this.element,
      h("div.tool-head", {}, icon(item.decision ? (item.decision === "reject" ? "refused" : "succeeded") : "waiting"), h("span.tool-name", {}, visible(item.name ?? "decision")), h(item.decision ? "span.badge" : "span.badge.is-unsafe", {}, item.decision ? decidedWords(item) : "asks first")),
      h("div.ask-body", {}, item.reason && h("p", {}, visible(item.reason)), this.#editing ? this.#editor() : ArgumentList(item.arguments), !item.decision && this.#actions(),
        this.#error && Notice({ text: this.#error.message, code: this.#error.code })));
  }

  #actions() {
    const buttons = this.#allowed().map((decision, i) => this.#button(decision, i === 0 ? "btn.go" : "btn"));
    if (this.#allowed().includes("approve") && !this.#editing) buttons.splice(1, 0, h("button.btn", { type: "button", onclick: () => this.#edit(true) }, "Edit"));
    const left = Date.parse(this.#item.expires_at) - Date.now();
    return h("div.row", {}, buttons, h("span.hint", {}, left > 0 ? `expires in ${ticking(left)} · A / E / R` : ""));
  }

  #button(decision, look) {
    const label = this.#editing && decision === "approve" ? "Approve with changes" : WORDS[decision] ?? decision;
    return h(`button.${look}`, { type: "button", disabled: this.#busy, onclick: () => this.#decide(decision) }, label);
  }

  #edit(on) {
    this.#editing = on;
    this.#paint();
    this.element.querySelector("textarea")?.focus();
  }

  #editor() {
    const area = h("textarea.edit-args", { "aria-label": "Arguments as JSON", rows: 6, spellcheck: "false" });
    area.value = JSON.stringify(this.#item.arguments ?? {}, null, 2);
    return area;
  }

  async #decide(decision) {
    this.#error = null;
    try {
      const edited = this.#editing && decision === "approve" ? JSON.parse(this.element.querySelector("textarea").value) : undefined;
      this.#busy = true;
      await sendConfirm({ runId: this.story.run_id, approvalId: this.#item.approval_id, decision, args: edited });
      this.#editing = false;
    } catch (error) {
      this.#error = error instanceof SyntaxError ? { message: `The arguments are not JSON: ${error.message}.`, code: "arguments_invalid" } : error;
    } finally {
      this.#busy = false;
      this.#paint();
    }
  }
}

function decidedWords(item) {
  const word = { approve: "approved", reject: "rejected" }[item.decision] ?? item.decision.replaceAll("_", " ");
  return item.by ? `${word} by ${item.by}` : word;
}
