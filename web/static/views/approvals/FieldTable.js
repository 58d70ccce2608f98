// @ts-check
import { h, say } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { isLong, readField } from "../../state/form.js";
import { fully, rowsOf } from "../../state/inbox.js";

/** The arguments of a call in full, each changed in its place: the old value stays beside the new one. */
export class FieldTable {
  /** The fields that are open, by name: what was typed, read. */
  #open = signal(/** @type {Map<string, {value?: unknown, problem?: string}>} */ (new Map()));

  /** @param {any} question @param {boolean} isEditable */
  constructor(question, isEditable) {
    this.question = question;
    const rows = rowsOf(question);
    this.element = rows.length ? h("dl.fields", {}, rows.map((row) => this.#row(row, isEditable))) : h("p.faint", {}, "No arguments.");
  }

  /** The new values of what was changed; a signal is read. */
  get changes() {
    return this.#changed().map(([, { value }]) => value ?? "none");
  }

  /** True while a field is open whose text cannot be read. */
  get isWrong() {
    return [...this.#open.value.values()].some(({ problem }) => problem);
  }

  /** Return the arguments with the changes, or undefined without one. */
  args() {
    const changed = this.#changed();
    if (!changed.length) return undefined;
    const args = { ...this.question.arguments };
    for (const [name, { value }] of changed) {
      if (value === undefined) delete args[name];
      else args[name] = value;
    }
    return args;
  }

  /** Open the next field, or go to the first that is open; false where nothing can be changed. */
  edit() {
    const next = /** @type {HTMLElement | null} */ (this.element.querySelector("[data-edit]:not([hidden])"));
    if (next) next.click();
    else /** @type {HTMLElement | null} */ (this.element.querySelector("input, select, textarea"))?.focus();
    return Boolean(next);
  }

  #changed() {
    return [...this.#open.value].filter(([name, { value, problem }]) => !problem && JSON.stringify(value) !== JSON.stringify(this.question.arguments?.[name]));
  }

  /** @param {{name: string, value?: unknown, isDefault?: boolean, isNone?: boolean, field?: any}} row @param {boolean} isEditable */
  #row(row, isEditable) {
    const { name, value, isDefault, isNone, field } = row;
    const old = h("span.field-value", {}, isNone || value === "" ? h("span.faint", {}, isNone ? "none" : "empty") : visible(fully(value)));
    const note = isDefault && h("small", {}, "default, not from the model");
    const cell = h("dd", { dir: "auto" }, old, note);
    if (isEditable && field) this.#makeEditable(cell, old, row);
    return [h("dt", { title: field?.about ? visible(field.about) : null }, visible(name)), cell];
  }

  /** @param {HTMLElement} cell @param {HTMLElement} old @param {{name: string, value?: unknown, field?: any}} row */
  #makeEditable(cell, old, { name, field: schemaField }) {
    const field = { ...schemaField, kind: schemaField.kind === "choices" ? "json" : schemaField.kind };
    const problem = h("p.form-problem", { role: "alert" });
    const put = (/** @type {{value?: unknown, problem?: string} | null} */ entry) => {
      const next = new Map(this.#open.peek());
      if (entry) next.set(name, entry);
      else next.delete(name);
      this.#open.value = next;
    };
    const control = controlOf(field, name, () => put(readField(field, control.value)));
    const undo = h("button.quiet", { type: "button", "aria-label": `Undo the change of ${name}`, onclick: () => {
      put(null);
      edit.hidden = false;
      edit.focus();
    } }, "undo");
    const edit = h("button.quiet.field-edit", { type: "button", dataset: { edit: name }, "aria-label": `Edit ${name}`, onclick: () => {
      reset(control, field);
      put(readField(field, control.value));
      control.hidden = false; // what is hidden takes no focus
      control.focus();
    } }, "edit");
    control.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") event.preventDefault(), undo.click();
      if (event.key === "Enter" && control.tagName !== "TEXTAREA") event.preventDefault(), /** @type {HTMLElement | null} */ (control.closest("[data-question]")?.querySelector(".btn.go"))?.focus();
    });
    cell.append(control, undo, edit, problem);
    watch(() => {
      const entry = this.#open.value.get(name);
      const isChanged = this.#changed().some(([changed]) => changed === name);
      for (const part of [control, undo]) part.hidden = !entry;
      edit.hidden = Boolean(entry);
      old.hidden = Boolean(entry) && !isChanged;
      cell.classList.toggle("is-changed", Boolean(entry));
      old.classList.toggle("is-old", isChanged);
      say(problem, entry?.problem ?? "");
      control.setAttribute("aria-invalid", String(Boolean(entry?.problem)));
    });
  }
}

/** @type {(field: any, name: string, oninput: () => void) => any} */
function controlOf(field, name, oninput) {
  const common = { "aria-label": name, oninput, autocomplete: "off", dir: "auto" };
  if (field.kind === "boolean") return h("select", common, h("option", { value: "" }, "none"), h("option", { value: "yes" }, "Yes"), h("option", { value: "no" }, "No"));
  if (field.kind === "choice") return h("select", common, h("option", { value: "" }, "none"), field.choices.map((/** @type {unknown} */ choice, /** @type {number} */ i) => h("option", { value: String(i) }, visible(fully(choice)))));
  if (field.kind === "json" || (field.kind === "text" && isLong(field))) return h("textarea", { ...common, rows: 4, spellcheck: "false" });
  const isNumber = field.kind === "integer" || field.kind === "number";
  return h("input", { ...common, type: "text", inputmode: isNumber ? (field.kind === "integer" ? "numeric" : "decimal") : null, size: 16 });
}

/** @type {(control: any, field: any) => void} */
function reset(control, { kind, given, choices }) {
  if (kind === "boolean") control.value = given === undefined ? "" : given ? "yes" : "no";
  else if (kind === "choice") control.value = choices.includes(given) ? String(choices.indexOf(given)) : "";
  else control.value = given === undefined || given === null ? "" : kind === "json" ? JSON.stringify(given, null, 1) : String(given);
}
