// @ts-check
// What the board asks the server for beside its feed: the runs that a filter names, and why runs failed.

import { signal, watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { countRuns, listRuns } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { matches, serverQuery } from "../../state/filter.js";
import { FAILED } from "./groups.js";

/** @typedef {import("../../dom/live.js").Signal<Record<string, string>>} Query */
/** @typedef {{runs: any[], counts: {value: string, count: number}[], error: any, isLoading: boolean}} RunList */

const REFRESH_MS = 15_000;
const PAGE = 200;

/** Return a function that returns why runs failed within a day, the most frequent cause first; it is asked with each failure. */
export function failureCauses(/** @type {any} */ board) {
  const failures = signal(0);
  const { state, refresh } = resource((abort) => countRuns("code", FAILED, abort), { everyMs: REFRESH_MS });
  watch(() => {
    board.changes.value;
    failures.value = board.number("failed");
  });
  watch(() => void (failures.value && refresh()));
  return () => state.value.value?.groups ?? [];
}

/**
 * Return a signal of the runs that the query names, or of null without a query; with a group (`agent`, `owner`) also how many
 * each has of them all.
 *
 * @param {Query} query
 * @param {import("../../dom/live.js").Signal<string>} group
 * @param {any} board
 */
export function filteredRuns(query, group, board) {
  const list = signal(/** @type {RunList | null} */ (null));
  watch(() => {
    const [words, by] = [query.value, group.value];
    if (!Object.keys(words).length) return void (list.value = null);
    const { state } = resource((abort) => listRuns({ ...serverQuery(words), limit: PAGE }, abort), { everyMs: REFRESH_MS });
    const counts = by ? resource((abort) => countRuns(by, serverQuery(words), abort), { everyMs: REFRESH_MS }).state : null;
    watch(() => {
      const { value, error, isLoading } = state.value;
      board.changes.value; // what has changed since is newer on the board
      list.value = { runs: present(words, value, board), counts: counts?.value.value?.groups ?? [], error: error ?? counts?.value.error, isLoading };
    });
  });
  return list;
}

// What the server has listed, and what has begun to fit since; a summary does not name the tools of a run.
/** @type {(query: Record<string, string>, page: {runs: any[], next?: string} | undefined, board: any) => any[]} */
function present(query, page, board) {
  if (!page) return [];
  const first = page.next && query.status !== "asking" ? page.runs[page.runs.length - 1].created_at : "";
  const runs = new Map(page.runs.map((run) => [run.run_id, board.get(run.run_id) ?? run]));
  const others = query.tool ? [] : Object.values(board.lanes()).flat();
  for (const run of others) if (run.created_at >= first) runs.set(run.run_id, run);
  return [...runs.values()].filter((run) => matches(query, run)).sort((one, other) => Date.parse(other.created_at) - Date.parse(one.created_at));
}

/** Return a function that makes the same row of the same summary, so that what did not change is not drawn again. */
export function rowMaker() {
  const rows = new WeakMap();
  return (/** @type {any} */ run) => {
    if (!rows.has(run)) rows.set(run, { key: run.run_id, run, isChoosable: true, label: run.title ?? run.run_id, href: addressOf("/run/:runId", { runId: run.run_id }) });
    return rows.get(run);
  };
}
