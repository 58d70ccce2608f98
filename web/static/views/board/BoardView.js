// @ts-check
// The board: every run that is on, by what to do about it; or the runs that a filter names.

import { Board, noRuns } from "./Board.js";
import { LineState } from "../../ui/LineState.js";
import { Notice } from "../../ui/Notice.js";
import { fill, h } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { useTicker } from "../../dom/useTicker.js";
import { addressOf } from "../../router.js";
import { lanesOf } from "../../state/board.js";
import { filterOf, problemsOf, textOf } from "../../state/filter.js";
import { listOf } from "../../state/savedViews.js";
import { Table } from "../../ui/Table.js";
import { openQuestions } from "../approvals/openQuestions.js";
import { BulkBar } from "./BulkBar.js";
import { FilterBar } from "./FilterBar.js";
import { asLinks, columnMenu, groupMenu } from "./choices.js";
import { allBox, runColumns } from "./columns.js";
import { byRun, doingOf } from "./doing.js";
import { boardRows, FAILED, folds, groupedRows } from "./groups.js";
import { failureCauses, filteredRuns, rowMaker } from "./lists.js";
import { ViewTabs } from "./ViewTabs.js";
import { Vitals } from "./Vitals.js";

/** @typedef {import("../../ui/Table.js").Row} Row */
/** @typedef {Record<string, string>} Query */
/** @typedef {import("../../router.js").Route} Route */

/** Return the view; it follows the board's feed, and asks the server for what a filter names. */
export function open(/** @type {any} */ app, /** @type {Route} */ route) {
  const { board } = app.feed;
  const given = signal(/** @type {Query} */ ({})), named = signal(/** @type {Query | null} */ ({})), problems = signal(/** @type {string[]} */ ([]));
  const group = signal(""), as = signal(""), chosen = signal(/** @type {Set<string>} */ (new Set()));
  const clock = signal(Date.now());
  onEnd(useTicker(() => { clock.value = Date.now(); }));
  const hrefOf = (/** @type {Query} */ query) => addressOf("/board", {}, { ...query, as: as.value });
  const go = (/** @type {Query} */ next, by = group.peek()) => { location.hash = hrefOf({ ...next, group: by }); };

  const read = (/** @type {Query} */ query) => {
    given.value = query;
    problems.value = problemsOf(query);
  };
  const take = (/** @type {Route} */ { query: { as: look = "", group: by = "", ...query } }) => {
    as.value = look === "lanes" ? look : "";
    group.value = listOf({ group: by }).group ?? "";
    if (textOf(query) !== textOf(given.peek()) || problems.peek().length) read(query);
  };
  take(route); // before the first rows are made: those of another list would be seen for some frames
  // A link to the same list: what was typed in its place is dropped.
  const again = (/** @type {MouseEvent} */ { target }) => void (/** @type {HTMLElement} */ (target).closest("a")?.hash === location.hash && read({ ...given.peek() }));

  const { rows, runs, list } = runsOf(board, { given, group, problems, nameOf: app.nameOf });
  const { shown, showHeading } = folds(rows);
  const questions = openQuestions(board), asking = signal(byRun([]));
  watch(() => { asking.value = byRun(questions.list()); });
  const wordsOf = (/** @type {any} */ run) => doingOf(run, asking.value.get(run.run_id), clock.value);

  const scroller = h("div.view-scroll");
  const columns = runColumns({ nameOf: app.nameOf, chosen, clock, wordsOf, all: allBox(shown, chosen) });
  const table = new Table({ label: "Runs", columns, rows: shown, scroller, showHeading, chosen });
  const cards = lanesBeside(app, { isShown: () => Boolean(as.value), runs, isWhole: () => !list.value && !problems.value.length, clock, wordsOf });
  const bulk = new BulkBar({ chosen, board, runs: () => rows.peek() });
  const menus = h("div.drops", {}, groupMenu(group, (by) => go(filterOf(given.peek()), by)), columnMenu(table));
  const bar = new FilterBar({ query: given, problems, onQuery: go, beside: [bulk.element, menus, asLinks(as, () => ({ ...given.value, group: group.value }))] });
  const tabs = new ViewTabs({ query: named, board, mine: app.me?.credential === "none" ? "" : app.me?.principal ?? "", hrefOf });
  const [note, body, hint] = [h("div.view-note", { role: "status" }), h("div.board-body", {}, h("div.table-wrap", {}, table.element), cards.lanes), h("p.keys-hint", { "aria-hidden": "true" }, [["j", "k", "move"], ["x", "choose"], ["/", "filter"], ["Enter", "open the run"]].map((parts) => h("span", {}, parts.slice(0, -1).map((key) => h("kbd", {}, key)), parts.at(-1))))];
  watch(() => { scroller.dataset.as = as.value || "table"; });
  watch(() => { named.value = problems.value.length ? null : listOf({ ...given.value, group: group.value }); });
  watch(() => showNote(note, { isEmpty: !rows.value.length, list: list.value, problems: problems.value, app }));
  const line = new LineState({ onRetry: () => app.feed.hurry() });
  watch(() => line.show(app.line.value));
  fill(scroller, new Vitals(board).element, bar.element, body, note);

  const step = (/** @type {number} */ by) => () => (as.peek() ? cards : table).step(by);
  return {
    title: "Board",
    element: h("div.view-frame", { onclick: again }, h("header.view-head", {}, h("h1", {}, "The board"), tabs.element, line.element), tabs.note, scroller, hint),
    keys: { j: step(1), k: step(-1), x: () => as.peek() || table.toggle(), "/": () => bar.focus() },
    commands: () => [["Open runs", { status: "open" }], ["Failed in 24 hours", FAILED], ["As lanes", { as: "lanes" }]].map(([words, next]) => [`Board: ${words}`, () => { location.hash = addressOf("/board", {}, /** @type {any} */ (next)); }]),
    show: (/** @type {Route} */ next) => {
      take(next);
      chosen.value = new Set();
      bulk.forget();
    },
  };
}

/** @typedef {import("../../dom/live.js").Signal<Query>} QuerySignal */

/** @type {(board: any, given: {given: QuerySignal, group: any, problems: any, nameOf: any}) => {rows: import("../../dom/live.js").Signal<Row[]>, runs: () => any[], list: any}} What the address names, as rows and as runs; nothing where it cannot be read. */
function runsOf(board, { given, group, problems, nameOf }) {
  const query = signal(/** @type {Query} */ ({}));
  watch(() => {
    const filter = filterOf(given.value);
    query.value = group.value && !Object.keys(filter).length ? { status: "open" } : filter;
  });
  const list = filteredRuns(query, group, board), causes = failureCauses(board), rowOf = rowMaker();
  const rows = signal(/** @type {Row[]} */ ([]));
  watch(() => {
    board.changes.value;
    rows.value = problems.value.length ? [] : list.value ? groupedRows(list.value, group.value, query.value, rowOf, nameOf) : boardRows(board, causes(), rowOf);
  });
  return { rows, runs: () => (problems.value.length ? [] : list.value?.runs ?? Object.values(board.lanes()).flat()), list };
}

/** @type {(app: any, given: {isShown: () => boolean, runs: () => any[], isWhole: () => boolean, clock: any, wordsOf: (run: any) => import("./doing.js").Doing}) => any} Returns the cards of the runs in lanes, for a wall screen. */
function lanesBeside(app, { isShown, runs, isWhole, clock, wordsOf }) {
  const { board } = app.feed;
  const shown = () => ({ lanes: () => lanesOf(runs()), size: runs().length, open: 0, total: (/** @type {string} */ name) => (isWhole() ? board.total(name) : undefined) });
  const words = (/** @type {any} */ run) => [wordsOf(run).words, run.status === "running" ? "" : wordsOf(run).left].filter(Boolean).join(" · "); // a running card has a clock
  const cards = new Board({ board: shown, nameOf: app.nameOf, wordsOf: words, hrefOf: (/** @type {any} */ { run_id: runId }) => addressOf("/run/:runId", { runId }) });
  for (const heading of cards.lanes.querySelectorAll("h3")) heading.ariaLevel = "2";
  watch(() => {
    if (!isShown()) return;
    clock.value;
    board.changes.value;
    runs();
    cards.update();
  });
  return cards;
}

/** @type {(note: HTMLElement, given: {isEmpty: boolean, list: {error: any, isLoading: boolean} | null, problems: string[], app: any}) => void} */
function showNote(note, { isEmpty, list, problems, app }) {
  const everything = () => h("p", {}, h("a.quiet", { href: "#/board" }, "Show everything"));
  if (problems.length) fill(note, h("p", {}, "No run is listed: the filter cannot be read."), everything());
  else if (list?.error) fill(note, Notice({ text: list.error.message, code: list.error.code }));
  else if (!isEmpty) fill(note);
  else if (list?.isLoading || app.line.value.name === "connecting") fill(note, h("p.faint", {}, "Reading the runs"));
  else if (list) fill(note, h("p", {}, "No run fits this filter."), everything());
  else fill(note, noRuns());
}
