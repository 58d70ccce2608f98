// @ts-check
import { h } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { getRun, getThread } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { threadKey } from "../../state/me.js";
import { Loaded } from "../../ui/Loaded.js";
import { rowOf } from "../RunList.js";

/** @typedef {{words: string, runs: any[]}} Relation */

const MOST_OF_THREAD = 50;

/** Return the runs that this one comes from, those that come from it, and the others of its conversation. */
export function RelatedRuns(/** @type {any} */ app, /** @type {string} */ runId) {
  return h("div.run-tab", {}, Loaded(resource(() => relationsOf(runId)), (relations) => {
    const some = relations.filter(({ runs }) => runs.length);
    return some.length ? some.map((relation) => section(app, runId, relation)) : h("p.soft", {}, "No other run belongs to this one.");
  }, "the related runs"));
}

/** @type {(runId: string) => Promise<Relation[]>} */
async function relationsOf(runId) {
  const run = await getRun(runId);
  const origin = run.retry_of ?? run.rerun_of;
  const [parents, origins, repeats, thread] = await Promise.all([known([run.parent_run_id]), known([origin]), known(run.repeated_by ?? []), getThread(threadKey(run.thread_id, run.principal)).catch(() => ({ runs: [] }))]);
  const children = run.children ?? [];
  const shown = new Set([runId, ...[...parents, ...origins, ...repeats, ...children].map(({ run_id: id }) => id)]);
  return [
    { words: "A call of this run delegated it", runs: parents },
    { words: run.retry_of ? "It retries" : "It repeats, from a step on", runs: origins },
    { words: "Repeated by", runs: repeats },
    { words: "Its calls delegated", runs: children },
    { words: "In the same conversation", runs: thread.runs.filter((/** @type {any} */ { run_id: id }) => !shown.has(id)).slice(-MOST_OF_THREAD) },
  ];
}

// One that was removed, or is not this reader's to see, is named by its id.
/** @type {(ids: (string | undefined)[]) => Promise<any[]>} */
function known(ids) {
  return Promise.all(ids.filter((id) => id !== undefined).map((id) => getRun(id).catch(() => ({ run_id: id }))));
}

/** @type {(app: any, runId: string, relation: Relation) => HTMLElement} */
function section(app, runId, { words, runs }) {
  const row = (/** @type {any} */ run) => {
    const element = rowOf(run, app, false), href = addressOf("/run/:runId", { runId }, { tab: "compare", with: run.run_id });
    element.append(h("td.n", {}, h("a.quiet", { href, "aria-label": `Compare with ${visible(run.title ?? run.run_id)}` }, "Compare")));
    return element;
  };
  return h("section.relation.run-list", {}, h("h2", {}, words), h("table.plain-table", { "aria-label": words }, h("tbody", {}, runs.map(row))));
}
