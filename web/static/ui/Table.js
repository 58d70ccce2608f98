// @ts-check
// A table of many rows: only those near the window are in the document; keys move through it and choose rows.

import { fill, h, icon, say } from "../dom/h.js";
import { each, onEnd, signal, watch } from "../dom/live.js";
import { paintSoon } from "../dom/paint.js";

/**
 * @typedef {{key: string, isHeading?: boolean, isChoosable?: boolean, href?: string, [fact: string]: any}} Row
 * @typedef {{name: string, title: string, isNumber?: boolean, show: (cell: HTMLElement, row: Row) => void}} Column
 */

const ALL_BELOW = 150;
const MARGIN_PX = 600;
/** Heights in px until the first row of each kind is measured. */
const HEIGHTS = { row: 33, heading: 46 };

/**
 * A table that follows `rows()`: what they have in their columns, and headings between them. A row is drawn again where it
 * is another object. `scroller` is the element that scrolls it. `chosen` holds the keys of the chosen rows.
 */
export class Table {
  #heights = { ...HEIGHTS };
  #tops = [0];
  #span = signal("0 0");
  #current = "";
  #last = "";

  /** @param {{label: string, columns: Column[], rows: () => Row[], scroller: HTMLElement, showHeading?: (cell: HTMLElement, row: Row) => void, chosen?: import("../dom/live.js").Signal<Set<string>>}} given */
  constructor({ label, columns, rows, scroller, showHeading = () => {}, chosen = signal(new Set()) }) {
    this.columns = columns;
    this.rows = rows;
    this.scroller = scroller;
    this.showHeading = showHeading;
    this.chosen = chosen;
    this.head = h("tr", {}, columns.map(({ title, name, isNumber }) => h(`th${isNumber ? ".n" : ""}.c-${name}`, { scope: "col" }, title)));
    this.body = h("tbody");
    this.above = h("tbody.gap", { "aria-hidden": "true" }, h("tr", {}, h("td")));
    this.below = h("tbody.gap", { "aria-hidden": "true" }, h("tr", {}, h("td")));
    this.element = h("table.rows", { "aria-label": label }, h("colgroup", {}, columns.map(({ name }) => h(`col.c-${name}`))), h("thead", {}, this.head), this.above, this.body, this.below);
    this.element.addEventListener("click", this.#clicked);
    this.element.addEventListener("focusin", this.#noteFocus);
    const look = () => paintSoon(this.#look);
    scroller.addEventListener("scroll", look, { passive: true });
    const resized = new ResizeObserver(look);
    resized.observe(scroller);
    onEnd(() => {
      scroller.removeEventListener("scroll", look);
      resized.disconnect();
    });
    watch(() => this.#measure(this.rows()));
    each(this.body, () => this.#shown(), (row) => row.key, (row) => this.#element(row));
    watch(() => this.#number(this.#shown().length));
  }

  /** Move the focus to the next (1) or previous (-1) row. */
  step(/** @type {number} */ by) {
    const list = this.rows();
    let at = list.findIndex(({ key }) => key === this.#current);
    do at += at < 0 ? Math.max(by, 1) : by; while (list[at]?.isHeading);
    if (!list[at]) return;
    this.#current = list[at].key;
    this.#reveal(at);
  }

  /** Choose the row that has the focus, or choose it no more. */
  toggle() {
    const row = this.rows().find(({ key }) => key === this.#current);
    if (row?.isChoosable) this.#choose([row.key], !this.chosen.peek().has(row.key));
  }

  // --- which rows are in the document ---------------------------------------------------------------

  /** @param {Row[]} list */
  #measure(list) {
    this.#tops = [0];
    for (const row of list) this.#tops.push(this.#tops[this.#tops.length - 1] + this.#heights[row.isHeading ? "heading" : "row"]);
    this.element.setAttribute("aria-rowcount", String(list.length + 1));
    paintSoon(this.#look);
  }

  #look = () => {
    if (this.#remeasure()) this.#measure(this.rows());
    const number = this.#tops.length - 1;
    const top = this.scroller.scrollTop - this.element.offsetTop;
    const first = number <= ALL_BELOW ? 0 : Math.max(0, this.#at(top - MARGIN_PX));
    const last = number <= ALL_BELOW ? number : Math.min(number, this.#at(top + this.scroller.clientHeight + MARGIN_PX) + 1);
    this.#span.value = `${first} ${last}`;
    this.#gap(this.above, this.#tops[first]);
    this.#gap(this.below, this.#tops[number] - this.#tops[last]);
  };

  // Rows are lower on a phone: one of each kind is measured where it is shown.
  #remeasure() {
    let isChanged = false;
    for (const kind of /** @type {("row" | "heading")[]} */ (["row", "heading"])) {
      const height = this.body.querySelector(kind === "row" ? "tr.line-row" : "tr.heading")?.getBoundingClientRect().height;
      if (height && Math.abs(height - this.#heights[kind]) > 0.5) [this.#heights[kind], isChanged] = [height, true];
    }
    return isChanged;
  }

  /** @type {(y: number) => number} Returns the number of the row at a height. */
  #at(y) {
    let [low, high] = [0, this.#tops.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** @type {(body: HTMLElement, height: number) => void} */
  #gap(body, height) {
    body.hidden = height <= 0;
    /** @type {HTMLElement} */ (body.querySelector("td")).style.height = `${height}px`;
  }

  #shown() {
    const [first, last] = this.#span.value.split(" ").map(Number);
    return this.rows().slice(first, Math.max(last, 1));
  }

  // What a screen reader says of a row's place, of which the document has only some.
  #number(/** @type {number} */ count) {
    const [first] = this.#span.peek().split(" ").map(Number);
    for (let i = 0; i < count; i += 1) {
      const row = this.body.children[i], place = String(first + i + 2);
      if (row && row.getAttribute("aria-rowindex") !== place) row.setAttribute("aria-rowindex", place);
    }
  }

  // --- a row ----------------------------------------------------------------------------------------

  /** @param {import("../dom/live.js").Signal<Row>} row */
  #element(row) {
    const { key, isHeading } = row.peek();
    if (isHeading) {
      // Not over all columns: where some are hidden, a wider cell would make new ones.
      const cell = h("th", { colspan: Math.min(3, this.columns.length), scope: "rowgroup" });
      watch(() => this.showHeading(cell, row.value));
      return h("tr.heading", { dataset: { key } }, cell);
    }
    const cells = this.columns.map(({ name, isNumber }) => h(`td${isNumber ? ".n" : ""}.c-${name}`));
    const element = h("tr.line-row", { dataset: { key } }, cells);
    watch(() => this.columns.forEach((column, i) => column.show(cells[i], row.value)));
    watch(() => element.toggleAttribute("data-chosen", this.chosen.value.has(key)));
    return element;
  }

  /** @param {number} at */
  #reveal(at) {
    const { scroller, element } = this;
    const [top, end] = [this.#tops[at] + element.offsetTop, this.#tops[at + 1] + element.offsetTop];
    const [first, last] = [scroller.scrollTop + 90, scroller.scrollTop + scroller.clientHeight - 40];
    if (top < first) scroller.scrollTop -= first - top;
    else if (end > last) scroller.scrollTop += end - last;
    const focus = (tries = 4) => {
      const row = /** @type {HTMLElement | null} */ (this.body.querySelector(`tr[data-key="${CSS.escape(this.#current)}"] :is(a[href], button)`));
      if (row) row.focus({ preventScroll: true });
      else if (tries) requestAnimationFrame(() => focus(tries - 1)); // it comes into the document with the next frame
    };
    focus();
  }

  // --- choosing -------------------------------------------------------------------------------------

  #clicked = (/** @type {MouseEvent} */ event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
    const key = /** @type {HTMLElement | null} */ (box.closest("tr"))?.dataset.key ?? "";
    this.#choose(event.shiftKey ? this.#between(this.#last, key) : [key], box.checked);
    this.#last = key;
  };

  /** @type {(first: string, last: string) => string[]} */
  #between(first, last) {
    const list = this.rows();
    const ends = [first, last].map((key) => list.findIndex((row) => row.key === key)).sort((a, b) => a - b);
    if (ends[0] < 0) return [last];
    return list.slice(ends[0], ends[1] + 1).filter(({ isChoosable }) => isChoosable).map(({ key }) => key);
  }

  /** @type {(keys: string[], isChosen: boolean) => void} */
  #choose(keys, isChosen) {
    const next = new Set(this.chosen.peek());
    for (const key of keys) isChosen ? next.add(key) : next.delete(key);
    this.chosen.value = next;
  }

  #noteFocus = (/** @type {FocusEvent} */ event) => {
    const row = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest("tr.line-row"));
    this.#current = row?.dataset.key ?? this.#current;
  };
}

/**
 * Return a column whose cells have a text.
 *
 * @param {string} name
 * @param {string} title
 * @param {(row: Row) => string} textOf
 * @param {Partial<Column>} [more]
 * @returns {Column}
 */
export function textColumn(name, title, textOf, more = {}) {
  return { name, title, show: (cell, row) => say(cell, textOf(row)), ...more };
}

/**
 * Return a column with the box that chooses a row, and the sign of its state: an icon's name, and its words.
 *
 * @param {(row: Row) => {name: string, words: string}} signOf
 * @param {import("../dom/live.js").Signal<Set<string>>} chosen
 * @returns {Column}
 */
export function choiceColumn(signOf, chosen) {
  return {
    name: "choice",
    title: "",
    show: (cell, row) => {
      if (!cell.firstChild) cell.append(h("input", { type: "checkbox", "aria-label": `Choose ${row.label ?? row.key}` }), h("span"));
      const [box, mark] = /** @type {[HTMLInputElement, HTMLElement]} */ (/** @type {unknown} */ (cell.children));
      const { name, words } = signOf(row);
      box.hidden = !row.isChoosable;
      box.checked = chosen.value.has(row.key);
      if (mark.dataset.sign !== name + words) fill(mark, icon(name), h("span.offscreen", {}, words));
      mark.dataset.sign = name + words;
    },
  };
}
