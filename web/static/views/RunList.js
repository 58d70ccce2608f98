// @ts-check
// The last runs that a query names, as a short table with a link to all of them.

import { LoadingIndicator } from "../ui/LoadingIndicator.js";
import { Notice } from "../ui/Notice.js";
import { ago, duration, exactly } from "../dom/format.js";
import { fill, h, icon } from "../dom/h.js";
import { signal, watch } from "../dom/live.js";
import { visible } from "../dom/visible.js";
import { addressOf } from "../router.js";
import { listRuns } from "../services/api.js";
import { resource } from "../services/resource.js";
import { errorWords, stateWords } from "../state/words.js";

const REFRESH_MS = 10_000;
const MOST = 12;

/** Return {element, refresh}. @param {{app: any, query: Record<string, string>, none: string}} given */
export function RunList({ app, query, none }) {
  const list = resource((abort) => listRuns({ ...query, limit: MOST }, abort), { everyMs: REFRESH_MS });
  const element = h("div.run-list"), shown = signal("");
  watch(() => {
    const { value, error } = list.state.value;
    shown.value = JSON.stringify({ runs: value?.runs.map(factsOf), more: Boolean(value?.next), error: error && { text: errorWords(error), code: error.code } });
  });
  watch(() => {
    const { runs, more, error } = JSON.parse(shown.value);
    if (error) fill(element, Notice({ ...error, actions: [["Try again", list.refresh]] }));
    else if (!runs) fill(element, LoadingIndicator("Reading the runs"));
    else fill(element, runs.length ? h("table.plain-table", { "aria-label": "Runs" }, h("tbody", {}, runs.map((/** @type {any} */ run) => rowOf(run, app, "agent" in query)))) : h("p.faint", {}, none), more && h("p", {}, h("a.quiet", { href: addressOf("/board", {}, query) }, "All of them")));
  });
  return { element, refresh: list.refresh };
}

/** @type {(run: any) => any} */
function factsOf({ run_id, title, agent, agent_name, status, reason, created_at, duration_ms, kind }) {
  return { run_id, title, agent, agent_name, status, reason, created_at, duration_ms, kind };
}

/** @type {(run: any, app: any, isOwn: boolean) => HTMLElement} Returns a run's row; one that is not to be seen has its id alone. */
export function rowOf({ run_id: id, title, agent, agent_name: name, status, reason, created_at: at, duration_ms: took }, app, isOwn) {
  return h("tr", {}, h("td.run-sign", {}, status && icon(status), h("span.offscreen", {}, status ? stateWords(status, reason) : "not to be seen")), h("td", {}, h("div.run-name", {}, h("a.clip", { href: addressOf("/run/:runId", { runId: id }), dir: "auto" }, visible(title || id)), agent && !isOwn && h("small", {}, visible(app.nameOf(agent, name))))), h("td.n", {}, took === undefined ? status : duration(took)), h("td.n", { title: exactly(at) }, ago(at)));
}
