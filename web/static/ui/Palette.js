// @ts-check
// Search, go to: a field with a list below it, over the page. The field keeps the focus; arrow keys move through the list.

import { fill, h, icon } from "../dom/h.js";
import { addStyles } from "../dom/styles.js";
import { visible } from "../dom/visible.js";
import { fitting, runIdOf } from "../state/palette.js";
import { entriesOf, foundBy, runEntry } from "./paletteEntries.js";

/** @typedef {import("../state/palette.js").Entry} Entry */

const PAUSE_MS = 200;
/** @type {Palette | null} */
let palette = null;

/** Open the palette with what was typed while it was loaded, or close it where it is open. */
export async function openPalette(/** @type {any} */ app, /** @type {() => string} */ typed) {
  await addStyles("/static/style/palette.css");
  palette ??= new Palette(app);
  palette.toggle(typed());
}

/** The dialog with its field and its list. */
class Palette {
  /** @type {Entry[]} */
  #entries = [];
  /** @type {Entry[]} */
  #found = [];
  /** @type {Entry[]} */
  #shown = [];
  #at = 0;
  #words = "";
  #problem = "";
  #isAsking = false;
  #timer = /** @type {any} */ (0);

  /** @param {any} app */
  constructor(app) {
    this.app = app;
    this.field = h("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list", "aria-label": "Search, go to", placeholder: "A place, an agent, a thread, a run or its id", autocomplete: "off", spellcheck: "false", oninput: () => this.#typed(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#pressed(event) });
    this.list = h("div.palette-list", { id: "palette-list", role: "listbox", "aria-label": "Where to" });
    this.note = h("p.palette-note", { role: "status" });
    this.element = h("dialog.palette", { "aria-label": "Search, go to", onclick: (/** @type {Event} */ event) => event.target === this.element && this.element.close(), onclose: () => clearTimeout(this.#timer) },
      h("div.palette-field", {}, icon("search"), this.field, h("kbd", {}, "Esc")), this.list, this.note);
    this.list.addEventListener("click", (/** @type {any} */ event) => this.#chosen(event.target.closest("[role=option]")?.dataset.key));
    document.body.append(this.element);
  }

  toggle(/** @type {string} */ words) {
    if (this.element.open) return this.element.close();
    this.#entries = entriesOf(this.app);
    this.#found = [];
    this.field.value = words;
    this.#words = this.#problem = "";
    this.element.showModal();
    this.#show(0);
    this.#typed();
  }

  #typed() {
    const words = this.field.value.trim();
    if (words === this.#words) return;
    this.#words = words;
    clearTimeout(this.#timer);
    this.#isAsking = Boolean(words);
    if (!words) this.#found = [];
    else this.#timer = setTimeout(() => this.#ask(words), PAUSE_MS);
    this.#show(0);
  }

  // An answer to words that are not in the field any more is dropped.
  async #ask(/** @type {string} */ words) {
    const { entries, problem } = await foundBy(this.app, words);
    if (words !== this.#words) return;
    [this.#found, this.#problem, this.#isAsking] = [entries, problem, false];
    this.#show(this.#at);
  }

  #show(/** @type {number} */ at) {
    const id = runIdOf(this.#words);
    const own = id && !this.#found.some(({ key }) => key === id) ? [runEntry(id, id, "")] : [];
    const current = this.#shown[at]?.key;
    this.#shown = fitting([...own, ...this.#entries, ...this.#found], this.#words);
    this.#at = Math.max(0, at && this.#shown.findIndex(({ key }) => key === current));
    const groups = [...new Set(this.#shown.map(({ group }) => group))];
    fill(this.list, groups.map((name) => h("div", { role: "group", "aria-label": name }, h("p.caps", { "aria-hidden": "true" }, name), this.#shown.filter(({ group }) => group === name).map((entry) => this.#option(entry)))));
    fill(this.note, this.#noteOf());
    this.#mark();
  }

  #noteOf() {
    if (this.#isAsking) return "Searching threads and runs";
    if (this.#problem) return visible(this.#problem);
    return this.#shown.length ? "" : `Nothing fits “${visible(this.#words)}”.`;
  }

  #option(/** @type {Entry} */ { key, title, note, icon: mark }) {
    return h("div.palette-option", { role: "option", id: `palette ${key}`.replace(/\s/g, "-"), dataset: { key } }, icon(mark), h("span.clip", { dir: "auto" }, visible(title)), note && h("small.clip", {}, visible(note)));
  }

  #mark() {
    const options = [...this.list.querySelectorAll("[role=option]")];
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === this.#at)));
    const option = options[this.#at];
    if (option) this.field.setAttribute("aria-activedescendant", option.id);
    else this.field.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  #pressed(/** @type {KeyboardEvent} */ event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 5, PageUp: -5 }[event.key];
    if (step) {
      event.preventDefault();
      this.#at = Math.min(this.#shown.length - 1, Math.max(0, this.#at + step));
      this.#mark();
    }
    if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      this.#chosen(this.#shown[this.#at]?.key);
    }
  }

  #chosen(/** @type {string | undefined} */ key) {
    const entry = this.#shown.find((each) => each.key === key);
    if (!entry) return;
    this.element.close();
    entry.go();
  }
}
