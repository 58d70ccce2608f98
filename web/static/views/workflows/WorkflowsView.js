// @ts-check
// The workflows: which there are, how each is drawn, how it is started, and its last runs.

import { h } from "../../dom/h.js";
import { listWorkflows } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { catalogue, styles } from "../catalogue.js";
import { WorkflowDetail } from "./WorkflowDetail.js";

export { styles };

const REFRESH_MS = 20_000;

/** Return the view; `app` is the page. */
export function open(/** @type {any} */ app) {
  return catalogue({
    name: "workflows",
    title: "Workflows",
    noun: "workflow",
    param: "workflowId",
    list: resource(listWorkflows, { everyMs: REFRESH_MS }),
    rowsOf,
    find,
    open: (id, given) => WorkflowDetail({ app, id, ...given }),
    empty: () => [h("p", {}, "There is no workflow yet."), h("p.faint", {}, "A workflow is a YAML file with nodes and edges, here named triage:"), h("pre", {}, "# config/workflows/triage.yaml\nname: Triage\nnodes: [{id: start, type: START}, {id: end, type: END}]\nedges: [{source: start, target: end}]")],
  });
}

/** @type {(answer: {workflows: any[], problems: any[]}) => import("../../ui/List.js").ListRow[]} */
function rowsOf({ workflows, problems }) {
  const ids = new Set(workflows.map(({ id }) => id));
  const broken = problems.filter(({ id }) => !ids.has(id)).map(({ id, code }) => ({ key: id, title: id, note: code, href: hrefOf(id), sign: "failed", signWords: "cannot be used" }));
  const usable = workflows.map((/** @type {any} */ { id, name, description, problem }) => ({ key: id, title: name, code: name.toLowerCase() === id ? "" : id, note: problem ? "its file cannot be used" : description, href: hrefOf(id), ...(problem && { sign: "waiting", signWords: "serves an earlier version" }) }));
  usable.sort((/** @type {any} */ a, /** @type {any} */ b) => a.title.localeCompare(b.title, undefined, { numeric: true }));
  return [...(broken.length ? [{ key: " broken", title: "Cannot be used", isHeading: true }, ...broken, { key: " usable", title: "Can be used", isHeading: true }] : []), ...usable];
}

/** @type {(answer: {workflows: any[], problems: any[]}, id: string) => any} */
function find({ workflows, problems }, id) {
  const workflow = workflows.find((each) => each.id === id), broken = problems.find((each) => each.id === id);
  return (workflow || broken) && { ...workflow, broken };
}

/** @type {(id: string) => string} */
function hrefOf(id) {
  return `#/workflows/${encodeURIComponent(id)}`;
}
