// @ts-check
import { fill, h, icon } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { FIELDS, parse, textOf } from "../../state/filter.js";

/** The field that a list of runs is filtered with; `onQuery(query)` gets what was typed when Enter is pressed. */
export class FilterBar {
  /** @param {{query: import("../../dom/live.js").Signal<Record<string, string>>, onQuery: (query: Record<string, string>) => void, beside: HTMLElement[]}} given */
  constructor({ query, onQuery, beside }) {
    this.input = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: `Words of a title, ${Object.keys(FIELDS).slice(0, 4).map((name) => `${name}:`).join(", ")}…`, "aria-label": "Filter the runs", "aria-describedby": "filter-problems", spellcheck: "false", autocomplete: "off", dir: "auto", maxlength: 1000 }));
    this.problems = h("p.filter-problems", { id: "filter-problems", role: "alert" });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const { query: next, problems } = parse(this.input.value);
      fill(this.problems, problems.map((sentence) => h("span", {}, sentence)));
      if (!problems.length) onQuery(next);
    };
    this.element = h("div.bar", {}, h("form.filter", { role: "search", onsubmit: submit }, icon("search"), this.input), beside, this.problems);
    watch(() => {
      this.input.value = textOf(query.value);
      fill(this.problems);
    });
  }

  focus() {
    this.input.focus();
    this.input.select();
  }
}
