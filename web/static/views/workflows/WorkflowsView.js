// @ts-check
// The workflows: which there are, how each is drawn, how it is started, and its last runs.

import { h } from "../../dom/h.js";
import { listWorkflows } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { catalogue, definitionOf, definitionRows, styles } from "../catalogue.js";
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
    rowsOf: ({ workflows, problems }) => definitionRows(workflows, problems, hrefOf),
    find: ({ workflows, problems }, id) => definitionOf(workflows, problems, id),
    open: (id, given) => WorkflowDetail({ app, id, ...given }),
    empty: () => [h("p", {}, "There is no workflow yet."), h("p.faint", {}, "A workflow is a YAML file with nodes and edges, here named triage:"), h("pre", {}, "# config/workflows/triage.yaml\nname: Triage\nnodes: [{id: start, type: START}, {id: end, type: END}]\nedges: [{source: start, target: end}]")],
  });
}

/** @type {(id: string) => string} */
function hrefOf(id) {
  return `#/workflows/${encodeURIComponent(id)}`;
}
