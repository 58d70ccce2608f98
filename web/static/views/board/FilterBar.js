// @ts-check
import { fill, h, icon } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { FIELDS, parse, textOf } from "../../state/filter.js";

const MOST = 5;

/**
 * The field that a list of runs is filtered with; `onQuery(query)` gets what was typed when Enter is pressed, or when the
 * field is emptied. `problems` has the sentences about what cannot be read, of the address or of what was typed.
 */
export class FilterBar {
/** @param {{query: import("../../dom/live.js").Signal<Record<string, string>>, problems: import("../../dom/live.js").Signal<string[]>, onQuery: (query: Record<string, string>) => void, beside: HTMLElement[]}} given */
  constructor({ query, problems, onQuery, beside }) {
    this.input = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: `Words of a title, ${Object.keys(FIELDS).slice(0, 4).map((name) => `${name}:`).join(", ")}…`, "aria-label": "Filter the runs", "aria-describedby": "filter-enter filter-problems", spellcheck: "false", autocomplete: "off", dir: "auto", maxlength: 1000 }));
    const enter = h("span.filter-enter", { id: "filter-enter" }, h("kbd", {}, "Enter"), " applies it");
    const typed = () => { enter.hidden = this.input.value.trim() === textOf(query.peek()); };
    const apply = (/** @type {Event | undefined} */ event) => {
      event?.preventDefault();
      const { query: next, problems: sentences } = parse(this.input.value);
      problems.value = sentences;
      enter.hidden = true;
      if (!sentences.length) onQuery(next);
    };
    this.input.addEventListener("input", typed);
    this.input.addEventListener("search", () => this.input.value || apply(undefined)); // its button empties it
    const sentences = h("p.filter-problems", { id: "filter-problems", role: "alert" });
    this.element = h("div.bar", {}, h("form.filter", { role: "search", onsubmit: apply }, icon("search"), this.input, enter), beside, sentences);
    watch(() => {
      this.input.value = textOf(query.value);
      typed();
    });
    watch(() => fill(sentences, problems.value.slice(0, MOST).map((sentence) => h("span", {}, visible(sentence)))));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }
}
