// @ts-check
import { count } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { each, signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { keep, recalled } from "../../services/kept.js";
import { storedOf, viewsOf, withView } from "../../state/savedViews.js";
import { FAILED } from "./groups.js";

/** @typedef {{name: string, query: Record<string, string>, number: () => number, isSaved?: boolean}} Tab */

const KEPT = "board views";
const UNKEPT = "This browser keeps nothing for this page, so the view is there until the page is closed.";

/** The lists that are always there and those that the reader has named, as links; a list without a name can be given one. */
export class ViewTabs {
  /** @param {{query: import("../../dom/live.js").Signal<Record<string, string> | null>, board: any, mine: string, hrefOf: (query: Record<string, string>) => string}} given `query`: null where it cannot be read; `mine`: the reader, where there are others */
  constructor({ query, board, mine, hrefOf }) {
    this.hrefOf = hrefOf;
    const { views, problem } = viewsOf(recalled(KEPT));
    this.query = query;
    this.saved = signal(views);
    this.problem = signal(problem);
    this.isNaming = signal(false);
    /** @type {Tab[]} */
    const lists = [
      { name: "Everything", query: {}, number: () => 0 },
      { name: "Open", query: { status: "open" }, number: () => board.open },
      { name: "Need a person", query: { status: "asking" }, number: () => board.number("questions") },
      { name: "Failed in 24 hours", query: FAILED, number: () => board.number("failed") },
    ];
    if (mine) lists.push({ name: "Mine", query: { owner: mine }, number: () => 0 });
    const tabs = () => /** @type {Tab[]} */ ([...lists, ...this.saved.value.map((view) => ({ ...view, number: () => 0, isSaved: true }))]);
    const links = h("div.view-links");
    const save = h("button.quiet", { type: "button", onclick: () => { this.isNaming.value = true; } }, "Save view");
    const remove = h("button.quiet", { type: "button", onclick: () => this.#keep(this.saved.peek().filter((view) => !isOf(view.query, query.peek()))) }, "Remove view");
    const naming = this.#form();
    this.element = h("nav.view-tabs", { "aria-label": "Lists of runs" }, links, save, remove, naming);
    this.note = h("p.view-problem", { role: "status" });
    each(links, tabs, (tab) => `${tab.isSaved ? "saved " : ""}${tab.name}`, (tab) => this.#link(tab, board));
    watch(() => {
      const isNamed = tabs().some((tab) => isOf(tab.query, query.value));
      save.hidden = isNamed || !query.value || this.isNaming.value;
      remove.hidden = !this.saved.value.some((view) => isOf(view.query, query.value));
      naming.hidden = !this.isNaming.value;
    });
    watch(() => { query.value; this.isNaming.value = false; });
    watch(() => fill(this.note, this.problem.value));
  }

  /** @type {(tab: import("../../dom/live.js").Signal<Tab>, board: any) => HTMLElement} */
  #link(tab, board) {
    const [words, total, link] = [h("bdi"), h("small"), h("a")];
    link.append(words, total);
    watch(() => {
      const { name, query: own, number } = tab.value;
      board.changes.value;
      say(words, visible(name));
      say(total, number() ? count(number()) : "");
      link.setAttribute("href", this.hrefOf(own));
      if (isOf(own, this.query.value)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    return link;
  }

  #form() {
    const field = /** @type {HTMLInputElement} */ (h("input", { "aria-label": "Name of the view", placeholder: "Name of the view", maxlength: 40, required: true, autocomplete: "off", dir: "auto" }));
    const close = () => { this.isNaming.value = false; field.value = ""; };
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const views = withView(this.saved.peek(), field.value, this.query.peek() ?? {});
      if (views !== this.saved.peek()) this.#keep(views), close();
    };
    watch(() => { if (this.isNaming.value) requestAnimationFrame(() => field.focus()); });
    return h("form.view-name", { onsubmit: submit, onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && (event.stopPropagation(), close()) }, field, h("button.quiet", {}, "Save"));
  }

  #keep(/** @type {import("../../state/savedViews.js").SavedView[]} */ views) {
    this.saved.value = views;
    this.problem.value = keep(KEPT, storedOf(views)) ? "" : UNKEPT;
  }
}

/** @type {(one: Record<string, string>, other: Record<string, string> | null) => boolean} */
function isOf(one, other) {
  if (!other) return false;
  const names = Object.keys({ ...one, ...other });
  return names.every((name) => one[name] === other[name]);
}
