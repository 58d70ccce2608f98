// @ts-check
// What is wider than its place is scrolled by touch, wheel and keyboard; the style shades the side where there is more.

import { h } from "./h.js";

const MOST_COLUMNS = 6;
const MOST_CHARS = 120;

/** @type {(head: Element, body: import("./h.js").Child, ...below: import("./h.js").Child[]) => HTMLDivElement} Returns the table in a region that scrolls, named after its columns. */
export function scrollingTable(head, body, ...below) {
  const columns = [...head.children].slice(0, MOST_COLUMNS).map((cell) => /** @type {string} */ (cell.textContent).slice(0, MOST_CHARS));
  const label = `Table: ${columns.filter(Boolean).join(", ")}`.slice(0, MOST_CHARS);
  return h("div.table", { tabindex: "0", role: "region", "aria-label": label }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)), below);
}
