// @ts-check
// The board: every run that is on, by what to do about it; or the runs that a filter names.

import { LineState } from "../../components/LineState.js";
import { Notice } from "../../components/Notice.js";
import { fill, h, say } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { useTicker } from "../../hooks/useTicker.js";
import { addressOf } from "../../router.js";
import { filterOf } from "../../state/filter.js";
import { listOf } from "../../state/savedViews.js";
import { Table } from "../../ui/Table.js";
import { BulkBar } from "./BulkBar.js";
import { FilterBar } from "./FilterBar.js";
import { columnMenu, groupMenu } from "./choices.js";
import { runColumns } from "./columns.js";
import { boardRows, FAILED, groupedRows } from "./groups.js";
import { failureCauses, filteredRuns, rowMaker } from "./lists.js";
import { ViewTabs } from "./ViewTabs.js";
import { Vitals } from "./Vitals.js";

/** @typedef {import("../../ui/Table.js").Row} Row */

/** Return the view; it follows the board's feed, and asks the server for what a filter names. */
export function open(/** @type {any} */ app) {
  const query = signal(/** @type {Record<string, string>} */ ({}));
  const chosen = signal(/** @type {Set<string>} */ (new Set()));
  const clock = signal(Date.now());
  onEnd(useTicker(() => { clock.value = Date.now(); }));

  const group = signal(""), named = signal(/** @type {Record<string, string>} */ ({}));
  const asked = signal(/** @type {Record<string, string>} */ ({}));
  watch(() => { asked.value = group.value && !Object.keys(query.value).length ? { status: "open" } : query.value; });
  const list = filteredRuns(asked, group, app.feed.board);
  const rowOf = rowMaker();
  const causes = failureCauses(app.feed.board);
  const rows = signal(/** @type {Row[]} */ ([]));
  watch(() => {
    app.feed.board.changes.value;
    rows.value = list.value ? groupedRows(list.value, group.value, asked.value, rowOf, app.nameOf) : boardRows(app.feed.board, causes(), rowOf);
  });

  const scroller = h("div.view-scroll");
  const table = new Table({ label: "Runs", columns: runColumns({ nameOf: app.nameOf, chosen, clock }), rows: () => rows.value, scroller, showHeading, chosen });
  const go = (/** @type {Record<string, string>} */ next, by = group.peek()) => { location.hash = addressOf("/board", {}, { ...next, group: by }); };
  const bulk = new BulkBar({ chosen, board: app.feed.board, runs: () => rows.peek() });
  const menus = h("div.drops", {}, groupMenu(group, (by) => go(query.peek(), by)), columnMenu(table));
  const bar = new FilterBar({ query, onQuery: go, beside: [bulk.element, menus, lanesLink()] });
  const tabs = new ViewTabs({ query: named, board: app.feed.board });
  const note = h("div.view-note", { role: "status" });
  watch(() => showNote(note, rows.value, list.value, app));
  const line = new LineState({ onRetry: () => app.feed.hurry() });
  watch(() => line.show(app.line.value));
  fill(scroller, new Vitals(app.feed.board).element, bar.element, h("div.table-wrap", {}, table.element), note);

  return {
    title: "Board",
    element: h("div.view-frame", {}, h("header.view-head", {}, h("h1", {}, "The board"), tabs.element, line.element), tabs.note, scroller),
    keys: { j: () => table.step(1), k: () => table.step(-1), x: () => table.toggle(), "/": () => bar.focus() },
    commands: () => [["Open runs", { status: "open" }], ["Failed in 24 hours", FAILED], ["As lanes", { as: "lanes" }]].map(([words, next]) => [`Board: ${words}`, () => { location.hash = addressOf("/board", {}, /** @type {any} */ (next)); }]),
    show: (/** @type {import("../../router.js").Route} */ route) => {
      query.value = filterOf(route.query);
      named.value = listOf(route.query);
      group.value = named.value.group ?? "";
      chosen.value = new Set();
    },
  };
}

function lanesLink() {
  return h("nav.seg", { "aria-label": "As" }, h("a", { href: "#/board", "aria-current": "page" }, "Table"), h("a", { href: "#/board?as=lanes" }, "Lanes"));
}

/** @type {(cell: HTMLElement, row: Row) => void} */
function showHeading(cell, { group, title, number }) {
  if (!cell.firstChild) cell.append(h("b"), " ", h("span.total"));
  say(/** @type {HTMLElement} */ (cell.firstChild), title);
  say(/** @type {HTMLElement} */ (cell.lastChild), number);
  cell.dataset.group = group;
}

/** @type {(note: HTMLElement, rows: Row[], list: {error: any, isLoading: boolean} | null, app: any) => void} */
function showNote(note, rows, list, app) {
  if (list?.error) fill(note, Notice({ text: list.error.message, code: list.error.code }));
  else if (rows.length) fill(note);
  else if (list?.isLoading || app.line.value.name === "connecting") fill(note, h("p.faint", {}, "Reading the runs"));
  else if (list) fill(note, h("p", {}, "No run fits this filter."), h("p", {}, h("a.quiet", { href: "#/board" }, "Show everything")));
  else fill(note, h("p", {}, "No runs yet."), h("p.faint", {}, "Ask an agent something, or start one from a terminal:"), h("pre", {}, "./callboard run assistant \"What is 17 * 23?\""));
}
