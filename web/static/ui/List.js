// @ts-check
// A list of links with a field that finds some of them: j and k go through it, and the chosen one is marked.

import { fill, h, icon, say } from "../dom/h.js";
import { each, signal, watch } from "../dom/live.js";
import { visible } from "../dom/visible.js";

/** @typedef {{key: string, title: string, href?: string, note?: string, code?: string, sign?: string, signWords?: string, isHeading?: boolean, words?: string}} ListRow */

/** Follows `rows()`; a row is found by its title, its note, its code and its `words`. `chosen()` is the key of the marked one. */
export class List {
  /** @param {{label: string, hint: string, rows: () => ListRow[], chosen: () => string}} given */
  constructor({ label, hint, rows, chosen }) {
    const words = signal("");
    this.rows = () => found(rows(), words.value);
    this.chosen = chosen;
    this.input = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: hint, "aria-label": hint, dir: "auto", spellcheck: "false", autocomplete: "off", maxlength: 200, oninput: () => { words.value = this.input.value; } }));
    this.list = h("ul.list-rows", { "aria-label": label });
    const none = h("p.list-none", { role: "status" });
    this.element = h("div.list", {}, h("label.filter", {}, icon("search"), this.input), none, this.list);
    each(this.list, this.rows, ({ key }) => key, (row) => this.#element(row));
    watch(() => say(none, words.value && !this.rows().length ? "Nothing has these words." : ""));
  }

  /** Put the cursor into the field. */
  focus() {
    this.input.focus();
    this.input.select();
  }

  /** Go to the next (1) or previous (-1) row. */
  step(/** @type {number} */ by) {
    const links = /** @type {HTMLAnchorElement[]} */ ([...this.list.querySelectorAll("a")]);
    const at = links.findIndex((link) => link.getAttribute("aria-current"));
    const next = links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))];
    if (!next) return;
    next.focus();
    location.hash = next.hash;
  }

  /** @param {import("../dom/live.js").Signal<ListRow>} row */
  #element(row) {
    if (row.peek().isHeading) {
      const element = h("li.list-heading");
      watch(() => fill(element, h("span", {}, row.value.title), h("small", {}, row.value.note ?? "")));
      return element;
    }
    const link = h("a");
    watch(() => {
      const { title, href, note, code, sign, signWords } = row.value;
      link.setAttribute("href", href ?? "");
      fill(link, h("span.list-title", {}, sign && icon(sign), signWords && h("span.offscreen", {}, `${signWords}: `), h("b", { dir: "auto" }, visible(title)), code && h("code", {}, visible(code))), note && h("span.list-note", { dir: "auto" }, visible(note)));
    });
    watch(() => {
      const isChosen = this.chosen() === row.value.key;
      if (isChosen === link.hasAttribute("aria-current")) return;
      if (!isChosen) return link.removeAttribute("aria-current");
      link.setAttribute("aria-current", "page");
      requestAnimationFrame(() => link.scrollIntoView({ block: "nearest" }));
    });
    return h("li", {}, link);
  }
}

// A heading stays where a row below it does.
/** @type {(rows: ListRow[], words: string) => ListRow[]} */
function found(rows, words) {
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!parts.length) return rows;
  const fits = (/** @type {ListRow} */ { title, note = "", code = "", words: more = "" }) => parts.every((part) => `${title} ${note} ${code} ${more}`.toLowerCase().includes(part));
  const kept = rows.filter((row) => row.isHeading || fits(row));
  return kept.filter((row, at) => !row.isHeading || (kept[at + 1] && !kept[at + 1].isHeading));
}
