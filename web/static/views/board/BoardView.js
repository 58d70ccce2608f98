// @ts-check
// The board: every run that is on, by what to do about it; or the runs that a filter names.

import { LineState } from "../../components/LineState.js";
import { Notice } from "../../components/Notice.js";
import { count } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { each, onEnd, signal, watch } from "../../dom/live.js";
import { useTicker } from "../../hooks/useTicker.js";
import { addressOf } from "../../router.js";
import { countRuns, listRuns } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { filterOf, matches, serverQuery } from "../../state/filter.js";
import { Table } from "../../ui/Table.js";
import { BulkBar } from "./BulkBar.js";
import { FilterBar } from "./FilterBar.js";
import { boardRows, FAILED } from "./groups.js";
import { runColumns } from "./columns.js";
import { Vitals } from "./Vitals.js";

/** @typedef {import("../../ui/Table.js").Row} Row */

const REFRESH_MS = 15_000;
const PAGE = 200;

/** Return the view; it follows the board's feed, and asks the server for what a filter names. */
export function open(/** @type {any} */ app) {
  const query = signal(/** @type {Record<string, string>} */ ({}));
  const chosen = signal(/** @type {Set<string>} */ (new Set()));
  const clock = signal(Date.now());
  onEnd(useTicker(() => { clock.value = Date.now(); }));

  const list = filteredRuns(query, app.feed.board);
  const rowOf = rowMaker();
  const causes = failureCauses(app.feed.board);
  const rows = signal(/** @type {Row[]} */ ([]));
  watch(() => {
    app.feed.board.changes.value;
    rows.value = list.value ? list.value.runs.map(rowOf) : boardRows(app.feed.board, causes(), rowOf);
  });

  const scroller = h("div.view-scroll");
  const table = new Table({ label: "Runs", columns: runColumns({ nameOf: app.nameOf, chosen, clock }), rows: () => rows.value, scroller, showHeading, chosen });
  const bar = new FilterBar({ query, onQuery: (/** @type {Record<string, string>} */ next) => { location.hash = addressOf("/board", {}, next); }, beside: [new BulkBar({ chosen, board: app.feed.board, runs: () => rows.peek() }).element, lanesLink()] });
  const note = h("div.view-note", { role: "status" });
  watch(() => showNote(note, rows.value, list.value, app));
  const line = new LineState({ onRetry: () => app.feed.hurry() });
  watch(() => line.show(app.line.value));
  fill(scroller, new Vitals(app.feed.board).element, bar.element, h("div.table-wrap", {}, table.element), note);

  return {
    title: "Board",
    element: h("div.view-frame", {}, h("header.view-head", {}, h("h1", {}, "The board"), tabs(query, app.feed.board), line.element), scroller),
    keys: { j: () => table.step(1), k: () => table.step(-1), x: () => table.toggle(), "/": () => bar.focus() },
    commands: () => [["Open runs", { status: "open" }], ["Failed in 24 hours", FAILED], ["As lanes", { as: "lanes" }]].map(([words, next]) => [`Board: ${words}`, () => { location.hash = addressOf("/board", {}, /** @type {any} */ (next)); }]),
    show: (/** @type {import("../../router.js").Route} */ route) => {
      query.value = filterOf(route.query);
      chosen.value = new Set();
    },
  };
}

/** Return a function that returns why runs failed within a day, the most frequent cause first; it is asked with each failure. */
function failureCauses(/** @type {any} */ board) {
  const failures = signal(0);
  const { state, refresh } = resource((abort) => countRuns("code", FAILED, abort), { everyMs: REFRESH_MS });
  watch(() => {
    board.changes.value;
    failures.value = board.number("failed");
  });
  watch(() => void (failures.value && refresh()));
  return () => state.value.value?.groups ?? [];
}

/** Return a signal of {runs, error, isLoading} that the query names, or of null without a query. */
function filteredRuns(/** @type {import("../../dom/live.js").Signal<Record<string, string>>} */ query, /** @type {any} */ board) {
  const list = signal(/** @type {{runs: any[], error: any, isLoading: boolean} | null} */ (null));
  watch(() => {
    const words = query.value;
    if (!Object.keys(words).length) return void (list.value = null);
    const { state } = resource((abort) => listRuns({ ...serverQuery(words), limit: PAGE }, abort), { everyMs: REFRESH_MS });
    watch(() => {
      const { value, error, isLoading } = state.value;
      board.changes.value; // what has changed since is newer on the board
      const runs = (value?.runs ?? []).map((/** @type {any} */ run) => board.get(run.run_id) ?? run);
      list.value = { runs: runs.filter((/** @type {any} */ run) => matches(words, run)), error, isLoading };
    });
  });
  return list;
}

/** Return a function that makes the same row of the same summary, so that what did not change is not drawn again. */
function rowMaker() {
  const rows = new WeakMap();
  return (/** @type {any} */ run) => {
    if (!rows.has(run)) rows.set(run, { key: run.run_id, run, isChoosable: true, label: run.title ?? run.run_id, href: addressOf("/run/:runId", { runId: run.run_id }) });
    return rows.get(run);
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

/** Return the lists that are always there, as links with their numbers. */
function tabs(/** @type {import("../../dom/live.js").Signal<Record<string, string>>} */ query, /** @type {any} */ board) {
  const views = [
    { name: "Everything", query: {}, number: () => 0 },
    { name: "Open", query: { status: "open" }, number: () => board.open },
    { name: "Failed today", query: FAILED, number: () => board.number("failed") },
  ];
  const element = h("nav.view-tabs", { "aria-label": "Lists of runs" });
  each(element, () => views, (view) => view.name, (view) => {
    const { name, query: own, number } = view.peek();
    const total = h("small");
    const link = h("a", { href: addressOf("/board", {}, own) }, name, total);
    watch(() => {
      board.changes.value;
      say(total, number() ? count(number()) : "");
      if (addressOf("", {}, query.value) === addressOf("", {}, own)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    return link;
  });
  return element;
}
