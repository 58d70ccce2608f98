// @ts-check
// The form of a question: a labelled control for each field, and what is wrong beside the field it is wrong in.

import { h, say } from "../dom/h.js";
import { visible } from "../dom/visible.js";
import { fieldsOf, isLong, readField } from "../state/form.js";

let made = 0;

/**
 * A form made of a JSON Schema; `onAnswer` gets the values once every field can be read. With `values` it changes these:
 * a field that is left as it was keeps its value, or stays out; one that was changed shows the old value struck through.
 * `more`: other buttons by their words, each with what gets the values.
 */
export class Form {
  #fields;
  #values;

  /** @param {{form: import("../state/form.js").Schema, values?: Record<string, any>, onAnswer: (values: any) => void, onDecline?: false | (() => void), words?: string[], more?: Record<string, (values: any) => void>}} given */
  constructor({ form, values, onAnswer, onDecline, words = ["Send answer", "Decline"], more = {} }) {
    const id = `form-${(made += 1)}`;
    this.#values = values;
    this.#fields = fieldsOf(form, values).map((field, index) => new Field(field, `${id}-${index}`));
    this.summary = h("p.form-problem", { role: "alert" });
    const send = h("button.btn.go", { type: "submit", dataset: { key: "answer" } }, words[0]);
    const decline = onDecline && h("button.btn", { type: "button", dataset: { key: "reject" }, onclick: onDecline }, words[1]);
    this.element = h("form.answer-form", { novalidate: true, onsubmit: (/** @type {SubmitEvent} */ event) => this.#submit(event, more[/** @type {string} */ (event.submitter?.dataset.more)] ?? onAnswer), onkeydown: (/** @type {KeyboardEvent} */ event) => values && event.key === "Escape" && /** @type {() => void} */ (onDecline)() },
      this.#fields.map((field) => field.element), this.summary, h("div.row", {}, send, Object.keys(more).map((name) => h("button.btn", { type: "submit", dataset: { more: name } }, name)), decline));
  }

  focus() {
    this.#fields[0]?.focus();
  }

  #submit(/** @type {Event} */ event, /** @type {(values: any) => void} */ onAnswer) {
    event.preventDefault();
    const wrong = this.#fields.filter((field) => !field.look());
    say(this.summary, wrong.length ? (wrong.length === 1 ? "One field needs another look." : `${wrong.length} fields need another look.`) : "");
    if (wrong.length) return wrong[0].show();
    const fields = this.#fields.filter((field) => !this.#values || field.isChanged);
    const rest = Object.entries(this.#values ?? {}).filter(([name]) => !fields.some((field) => field.name === name));
    onAnswer(Object.fromEntries([...rest, ...fields.filter((field) => field.has).map((field) => [field.name, field.value])]));
  }
}

/** The control of a field, with its label, and what is wrong with what it has. */
class Field {
  /** @type {(HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement)[]} Several of a choice of several. */
  controls = [];

  constructor(/** @type {import("../state/form.js").Field} */ field, /** @type {string} */ id) {
    this.field = field;
    this.id = id;
    this.name = field.name;
    this.problem = h("p.form-problem", { id: `${id}-problem` });
    this.old = field.isEdited && field.given !== undefined && field.kind !== "choices" ? h("p.form-old", { hidden: true }, "was ", h("s", { dir: "auto" }, textOf(field.given)), " ", h("button.quiet", { type: "button", onclick: () => this.#undo() }, "Undo")) : null;
    this.about = field.about && h("p.hint", { id: `${id}-about` }, visible(field.about));
    this.element = field.kind === "choices" ? this.#group() : this.#single();
    this.initial = JSON.stringify(this.#raw());
  }

  get isChanged() {
    return JSON.stringify(this.#raw()) !== this.initial;
  }

  get has() {
    return "value" in this.#read();
  }

  get value() {
    return this.#read().value;
  }

  /** Say what is wrong with the field, from now on with each change; true when nothing is. */
  look() {
    this.isLooked = true;
    const { problem = "" } = this.#read();
    say(this.problem, problem);
    for (const control of this.controls) {
      if (problem) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    }
    return !problem;
  }

  focus() {
    this.controls[0].focus();
  }

  /** Focus the field, and have it in view after the page has followed the form's new end. */
  show() {
    this.focus();
    requestAnimationFrame(() => setTimeout(() => this.element.scrollIntoView({ block: "nearest" })));
  }

  // With each input, not when the field is left: what appears then would move the button that is being clicked.
  #look() {
    if (this.isLooked) this.look();
    if (this.old) this.old.hidden = !this.isChanged;
  }

  #undo() {
    this.controls[0].value = JSON.parse(this.initial);
    this.#look();
    this.focus();
  }

  #read() {
    return readField(this.field, this.#raw());
  }

  #raw() {
    const { field, controls } = this;
    return field.kind === "choices" ? controls.filter((/** @type {any} */ box) => box.checked).map((box) => box.value) : controls[0].value;
  }

  #single() {
    const control = this.#control();
    this.controls = [control];
    return h("div.form-field", {}, h("label", { for: this.id }, this.#label()), this.about, control, this.old, this.problem);
  }

  #group() {
    const given = new Set(Array.isArray(this.field.given) ? this.field.given : []);
    this.controls = this.field.choices.map((choice, index) => h("input", { type: "checkbox", id: `${this.id}-${index}`, value: String(index), checked: given.has(choice), oninput: () => this.#look() }));
    const boxes = this.controls.map((box, index) => h("label.form-box", {}, box, " ", textOf(this.field.choices[index])));
    return h("fieldset.form-field", { "aria-describedby": this.#described() }, h("legend", {}, this.#label()), this.about, h("div.form-boxes", {}, boxes), this.problem);
  }

  #control() {
    const { field, id } = this;
    const common = { id, placeholder: field.placeholder, required: field.required, "aria-describedby": this.#described(), oninput: () => this.#look() };
    if (field.kind === "boolean") return this.#select(common, [["yes", "Yes"], ["no", "No"]], { true: "yes", false: "no" }[/** @type {"true" | "false"} */ (field.given)]);
    if (field.kind === "choice") return this.#select(common, field.choices.map((choice, index) => [String(index), textOf(choice)]), String(field.choices.indexOf(field.given)));
    const given = field.given === undefined || field.given === null ? "" : typeof field.given === "string" ? field.given : JSON.stringify(field.given);
    if (field.kind === "json") return h("textarea.edit-args", { ...common, rows: 3, spellcheck: "false", value: given });
    if (field.kind === "text" && isLong(field)) return h("textarea", { ...common, rows: 2, value: given, dir: "auto" });
    const isNumber = field.kind === "integer" || field.kind === "number";
    return h("input", { ...common, type: isNumber ? "text" : field.input, inputmode: isNumber ? (field.kind === "integer" ? "numeric" : "decimal") : null, value: given, dir: "auto", autocomplete: "off" });
  }

  #select(/** @type {Record<string, unknown>} */ common, /** @type {string[][]} */ options, /** @type {string | undefined} */ given) {
    const element = h("select", common, h("option", { value: "" }, this.field.placeholder ?? (this.field.required ? "Choose…" : "Not given")), options.map(([value, text]) => h("option", { value }, text)));
    element.value = options.some(([value]) => value === given) ? /** @type {string} */ (given) : "";
    return element;
  }

  #label() {
    return [visible(this.field.label), this.field.required ? h("span.form-needed", {}, " required") : (this.field.isEdited || this.field.given === undefined) && h("span.hint", {}, " optional")];
  }

  #described() {
    return [this.about && `${this.id}-about`, `${this.id}-problem`].filter(Boolean).join(" ");
  }
}

function textOf(/** @type {unknown} */ choice) {
  return visible(typeof choice === "string" ? choice : JSON.stringify(choice));
}
