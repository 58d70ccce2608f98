// @ts-check
import { h } from "../dom/h.js";
import { each, watch } from "../dom/live.js";

/**
 * Return a table of few rows that follows `rows()`; a row is drawn again where it is another object.
 *
 * @template T
 * @param {{label: string, columns: {name: string, title: string, isNumber?: boolean, show: (cell: HTMLElement, row: T) => void}[], rows: () => readonly T[], keyOf: (row: T) => string}} given
 */
export function SmallTable({ label, columns, rows, keyOf }) {
  const body = h("tbody");
  each(body, rows, keyOf, (row) => {
    const cells = columns.map(({ name, isNumber }, i) => (i ? h(`td${isNumber ? ".n" : ""}.f-${name}`) : h(`th.f-${name}`, { scope: "row" })));
    watch(() => columns.forEach((column, i) => column.show(cells[i], row.value)));
    return h("tr", {}, cells);
  });
  const heads = columns.map(({ name, title, isNumber }) => h(`th${isNumber ? ".n" : ""}.f-${name}`, { scope: "col" }, title));
  return h("table.small", { "aria-label": label }, h("thead", {}, h("tr", {}, heads)), body);
}
