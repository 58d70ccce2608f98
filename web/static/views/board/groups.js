// @ts-check
// The runs of the board as the rows of its table: grouped by what a person has to do about them.

import { count } from "../../dom/format.js";
import { h, icon, say } from "../../dom/h.js";
import { signal } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { LANES } from "../../state/board.js";
import { ownerOf } from "../../state/me.js";

/** @typedef {import("../../ui/Table.js").Row} Row */

/** The query of the runs that failed within a day. */
export const FAILED = { code: "any", since: "24h" };
/** Each group: its title, the note behind its number, and the query of all of its runs. */
const GROUPS = /** @type {Record<string, {title: string, query?: Record<string, string>}>} */ ({
  questions: { title: "Need a person", query: { status: "asking" } },
  running: { title: "Running", query: { status: "running" } },
  queued: { title: "Queued", query: { status: "queued" } },
  waiting: { title: "Waiting", query: { status: "waiting" } },
  failed: { title: "Failed in 24 hours", query: FAILED },
  ended: { title: "Ended" },
});
/** Most rows of a group until it is asked for alone. */
const MOST = 40;

/**
 * Return the rows of the board: a heading for each group with runs, its runs, and where the rest is. Failures come first
 * among what has ended, one row for each cause.
 *
 * @param {import("../../state/board.js").BoardState} board
 * @param {{value: string, count: number, latest_at: string, agents: {agent: string, count: number}[]}[]} causes
 * @param {(run: any) => Row} rowOf returns the same row for the same summary
 * @returns {Row[]}
 */
export function boardRows(board, causes, rowOf) {
  const lanes = board.lanes();
  /** @type {Record<string, any[]>} */
  const groups = { ...lanes, queued: lanes.waiting.filter(isQueued), waiting: lanes.waiting.filter((/** @type {any} */ run) => !isQueued(run)) };
  const names = LANES.flatMap((name) => (name === "waiting" ? ["queued", "waiting"] : [name]));
  /** @type {Record<string, number>} */
  const numbers = { questions: board.number("questions"), running: board.number("running"), queued: board.number("queued"), waiting: board.number("waiting") - board.number("questions"), failed: board.number("failed"), ended: 0 };
  return names.flatMap((name) => groupRows(name, name === "failed" ? causes.map(causeRow) : groups[name].slice(0, MOST).map(rowOf), numbers[name]));
}

/** @type {(name: string, rows: Row[], total: number) => Row[]} */
function groupRows(name, rows, total) {
  if (!rows.length) return [];
  const { title, query } = GROUPS[name];
  const number = name === "ended" ? "latest" : count(total);
  const rest = query && name !== "failed" && total > rows.length ? [moreRow(name, total - rows.length, query)] : [];
  return [{ key: `group ${name}`, isHeading: true, group: name, title, number }, ...rows, ...rest];
}

/** @type {(cause: {value: string, count: number, latest_at: string, agents: {agent: string, count: number}[]}) => Row} */
function causeRow(cause) {
  return { key: `cause ${cause.value}`, cause, href: addressOf("/board", {}, { ...FAILED, code: cause.value }) };
}

/** @type {(name: string, number: number, query: Record<string, string>) => Row} */
function moreRow(name, number, query) {
  return { key: `more ${name}`, more: number, href: addressOf("/board", {}, query) };
}

/** @type {(run: any) => boolean} */
function isQueued(run) {
  return run.status === "queued";
}

/** What a run is grouped by, by the group's name. */
const VALUE_OF = /** @type {Record<string, (run: any) => string>} */ ({ agent: (run) => run.agent, owner: (run) => run.principal });

/**
 * Return the rows of a list; with a group a heading for each value with its true number, the largest first.
 *
 * @param {{runs: any[], counts: {value: string, count: number}[]}} list
 * @param {string} group
 * @param {Record<string, string>} query what the list was asked for
 * @param {(run: any) => Row} rowOf
 * @param {(id: string) => string} nameOf
 * @returns {Row[]}
 */
export function groupedRows({ runs, counts }, group, query, rowOf, nameOf) {
  const valueOf = VALUE_OF[group];
  if (!valueOf) return runs.map(rowOf);
  const totals = new Map(counts.map(({ value, count: total }) => [value, total]));
  /** @type {Map<string, any[]>} */
  const own = new Map();
  for (const run of runs) own.set(valueOf(run), [...(own.get(valueOf(run)) ?? []), run]);
  const values = [...new Set([...totals.keys(), ...own.keys()])];
  return values.flatMap((value) => {
    const rows = (own.get(value) ?? []).map(rowOf), total = totals.get(value) ?? rows.length;
    const rest = total > rows.length ? [moreRow(`${group} ${value}`, total - rows.length, { ...query, [group]: value })] : [];
    return [{ key: `group ${group} ${value}`, isHeading: true, group, title: visible(group === "agent" ? nameOf(value) : ownerOf(value)), number: count(total) }, ...rows, ...rest];
  });
}

/**
 * Return the rows without those of the groups that the reader has folded, and how a heading is shown that folds its group.
 *
 * @param {import("../../dom/live.js").Signal<Row[]>} rows
 */
export function folds(rows) {
  const folded = signal(/** @type {ReadonlySet<string>} */ (new Set()));
  const fold = (/** @type {string} */ key) => {
    const next = new Set(folded.peek());
    if (!next.delete(key)) next.add(key);
    folded.value = next;
  };
  const shown = () => {
    let isOpen = true;
    return rows.value.filter(({ isHeading, key }) => (isHeading ? ((isOpen = !folded.value.has(key)), true) : isOpen));
  };
  const showHeading = (/** @type {HTMLElement} */ cell, /** @type {Row} */ { key, group, title, number }) => {
    if (!cell.firstChild) cell.append(h("button.fold", { type: "button", onclick: () => fold(key) }, icon("chevron"), h("b")), " ", h("span.total"));
    const button = /** @type {HTMLElement} */ (cell.firstChild);
    button.setAttribute("aria-expanded", String(!folded.value.has(key)));
    say(/** @type {HTMLElement} */ (button.lastChild), title);
    say(/** @type {HTMLElement} */ (cell.lastChild), number);
    cell.dataset.group = group;
  };
  return { shown, showHeading };
}
