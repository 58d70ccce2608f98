// @ts-check
// The columns of a table of runs.

import { h, say } from "../../dom/h.js";
import { ago, cost, count, duration, exactly, plural } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { watch } from "../../dom/live.js";
import { lasting } from "../../state/inbox.js";
import { ownerOf } from "../../state/me.js";
import { stateWords } from "../../state/words.js";
import { choiceColumn, textColumn } from "../../ui/Table.js";
import { showDoing } from "./doing.js";

/** @typedef {import("../../ui/Table.js").Row} Row */
/** @typedef {import("../../ui/Table.js").Column} Column */

/**
 * Return the columns. `clock` is a signal that changes each second, which the open runs' times follow.
 *
 * @param {{nameOf: (id: string, name?: string) => string, chosen: any, clock: import("../../dom/live.js").Signal<number>, wordsOf: (run: any) => import("./doing.js").Doing, all: any}} given
 * @returns {Column[]}
 */
export function runColumns({ nameOf, chosen, clock, wordsOf, all }) {
  return [
    { ...choiceColumn(signOf, chosen), title: all },
    textColumn("agent", "Agent", (row) => ofRun(row, ({ agent, agent_name }) => visible(nameOf(agent, agent_name)), plural(row.cause?.count ?? 0, "run"))),
    { name: "what", title: "What", show: (cell, row) => showWhat(cell, row, nameOf) },
    { name: "doing", title: "Doing, or waits for", show: (cell, row) => showDoing(cell, row.run ? wordsOf(row.run) : { words: "", left: "", isAsked: false }) },
    { name: "when", title: "Started", show: (cell, row) => showWhen(cell, row, clock) },
    textColumn("for", "For", (row) => ofRun(row, (run) => lengthOf(run, clock), ""), { isNumber: true }),
    textColumn("tokens", "Tokens", (row) => ofRun(row, tokensOf, ""), { isNumber: true }),
    textColumn("cost", "Cost", (row) => ofRun(row, ({ cost_usd }) => (cost_usd ? cost(cost_usd) : ""), ""), { isNumber: true }),
    { name: "worker", title: "Worker", show: (cell, row) => showWorker(cell, row) },
    textColumn("owner", "Owner", (row) => ofRun(row, ({ principal }) => visible(ownerOf(principal)), "")),
  ];
}

/** Return the box of the head, which chooses all rows that are listed. */
export function allBox(/** @type {() => Row[]} */ rows, /** @type {import("../../dom/live.js").Signal<Set<string>>} */ chosen) {
  const keys = () => rows().filter(({ isChoosable }) => isChoosable).map(({ key }) => key);
  const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": "Choose all runs that are listed", onclick: (/** @type {Event} */ event) => {
    event.stopPropagation(); // the table's own boxes choose one row
    chosen.value = new Set(box.checked ? keys() : []);
  } }));
  watch(() => {
    const all = keys(), number = all.filter((key) => chosen.value.has(key)).length;
    box.hidden = !all.length;
    box.checked = number > 0 && number === all.length;
    box.indeterminate = number > 0 && number < all.length;
  });
  return box;
}

/** @type {(cell: HTMLElement, row: Row, clock: import("../../dom/live.js").Signal<number>) => void} */
function showWhen(cell, { run, cause }, clock) {
  const at = cause?.latest_at ?? run?.created_at ?? "";
  say(cell, `${cause ? "last " : ""}${ago(at, clock.value)}`);
  cell.title = exactly(at);
}

// Its last characters, as the fleet names it.
/** @type {(cell: HTMLElement, row: Row) => void} */
function showWorker(cell, { run }) {
  const id = run?.worker_id ?? "";
  say(cell, id && `…${visible(id.slice(-6))}`);
  cell.title = visible(id);
}

/** @type {(row: Row, textOf: (run: any) => string, otherwise: string) => string} */
function ofRun(row, textOf, otherwise) {
  return row.run && !row.cause ? textOf(row.run) : row.cause ? otherwise : "";
}

/** @type {(row: Row) => {name: string, words: string}} */
function signOf({ run, more, cause }) {
  if (cause) return { name: "failed", words: "failed" };
  return more ? { name: "", words: "" } : { name: run.status, words: stateWords(run.status, run.reason) };
}

/** @type {(cell: HTMLElement, row: Row, nameOf: (id: string, name?: string) => string) => void} */
function showWhat(cell, row, nameOf) {
  if (!cell.firstChild) cell.append(h("a"), h("span.soft"));
  const [link, note] = /** @type {[HTMLAnchorElement, HTMLElement]} */ (/** @type {unknown} */ (cell.children));
  if (link.getAttribute("href") !== row.href) link.setAttribute("href", row.href ?? "");
  link.classList.toggle("mono", Boolean(row.cause));
  if (row.more) {
    say(link, `and ${count(row.more)} more`);
  } else if (row.cause) {
    say(link, row.cause.value);
    say(note, visible(row.cause.agents.slice(0, 3).map((/** @type {any} */ { agent, count: number }) => `${nameOf(agent)} ${count(number)}`).join(", ")));
  } else {
    say(link, `${row.run.kind === "tool" ? "⚙ " : ""}${visible(row.run.title ?? row.run.run_id)}`);
    link.title = [visible(row.run.title ?? ""), row.run.run_id, exactly(row.run.created_at)].filter(Boolean).join("\n");
  }
}

/** @type {(run: any, clock: import("../../dom/live.js").Signal<number>) => string} */
function lengthOf(run, clock) {
  if (!run.ended_at) return lasting(clock.value - Date.parse(run.started_at ?? run.created_at));
  const ms = run.duration_ms ?? Date.parse(run.ended_at) - Date.parse(run.created_at);
  return ms < 59_950 ? duration(ms) : lasting(ms);
}

/** @type {(run: any) => string} */
function tokensOf({ usage }) {
  const total = (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
  return total ? count(total) : "";
}
