// @ts-check
import { span } from "../dom/format.js";
import { h, say } from "../dom/h.js";
import { MEANINGS, answerWords, inOrder } from "../state/inbox.js";

/** @type {Record<string, string>} */
const SCOPES = { thread: "its calls in this conversation", tool: "all calls of this agent" };

let made = 0;

/** A text that goes with a decision: what a call returned, or why it is rejected. */
export class AnswerField {
  /** @param {{label: string, hint?: string, confirm: string, isText?: boolean, onConfirm: () => void, onBack: () => void}} given */
  constructor({ label, hint, confirm, isText = false, onConfirm, onBack }) {
    this.isText = isText;
    this.onConfirm = onConfirm;
    const id = `answer-${(made += 1)}`;
    this.area = h("textarea.edit-args", { id, rows: 3, spellcheck: "false", dataset: { key: "field" }, "aria-describedby": `${id}-kind`, oninput: () => this.#look() });
    this.kind = h("span.hint", { id: `${id}-kind`, role: "status" });
    this.button = h("button.btn.go", { type: "submit", dataset: { key: "confirm" } }, confirm);
    const back = h("button.btn", { type: "button", onclick: onBack }, "Back");
    this.element = h("form.answer-field", { onsubmit: (/** @type {Event} */ event) => this.#submit(event), onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && onBack() },
      h("label", { for: id }, label), hint && h("p.hint", {}, hint), this.area, h("div.row", {}, this.button, back, this.kind));
    this.#look();
  }

  focus() {
    this.area.focus();
  }

  /** The value typed: JSON where it is JSON and may be, else the text; undefined when there is none. */
  get value() {
    const text = this.area.value;
    if (this.isText) return text.trim() || undefined;
    return text.trim() ? parsed(text).value : undefined;
  }

  #look() {
    const text = this.area.value;
    say(this.kind, !text.trim() || this.isText ? "" : parsed(text).isJson ? "Read as JSON" : /^\s*[[{"]/.test(text) ? "Not whole JSON: read as text" : "Read as text");
  }

  #submit(/** @type {Event} */ event) {
    event.preventDefault();
    this.onConfirm();
  }
}

/** What a person says of a call that is taken as done. */
export const TAKE = { label: "What did the call return?", hint: "JSON or text, as the agent should read it. Leave it empty if you do not know.", confirm: "Take as done" };

/** Return what the answers about an unknown outcome mean, or null where there is none. */
export function MeaningList(/** @type {string[]} */ decisions) {
  const rows = inOrder(decisions.filter((decision) => MEANINGS[decision])).map((decision) => [h("dt", {}, answerWords(decision)), h("dd", {}, MEANINGS[decision])]);
  return rows.length ? h("dl.meanings", {}, rows) : null;
}

/** @type {(question: {scopes?: string[], scope_s?: number, approvers?: number}, onchange: (() => void) | null) => HTMLElement | null} Returns the choice of the calls for which an approval holds, where the tool offers later ones, or null. */
export function ScopeField({ scopes = [], scope_s: seconds, approvers }, onchange) {
  if (!scopes.length || /** @type {number} */ (approvers) > 1) return null;
  return h("label.scope-field", {}, "holds for ", h("select", { onchange }, h("option", { value: "" }, "this call only"), scopes.map((scope) => h("option", { value: scope }, `${SCOPES[scope] ?? scope}, ${span(/** @type {number} */ (seconds))}`))));
}

function parsed(/** @type {string} */ text) {
  try {
    return { value: JSON.parse(text), isJson: true };
  } catch {
    return { value: text, isJson: false };
  }
}
