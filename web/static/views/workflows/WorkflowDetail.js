// @ts-check
// One workflow: its graph, the form that starts it, and its last runs.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { WorkflowForm } from "./WorkflowForm.js";
import { count } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { getWorkflow } from "../../services/admin.js";
import { countRuns } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { errorWords } from "../../state/words.js";
import { troubleOf } from "../catalogue.js";
import { RunList } from "../RunList.js";
import { DefinitionGraph } from "./DefinitionGraph.js";

const COUNT_MS = 5000;

/** @param {{app: any, id: string, item: () => any}} given */
export function WorkflowDetail({ app, id, item }) {
  const head = h("header.detail-head"), trouble = h("div.detail-trouble"), start = h("div"), drawing = h("div.workflow-graph"), signals = h("div");
  const input = signal(""), digest = signal("");
  const shown = resource((abort) => getWorkflow(id, abort));
  const here = resource((abort) => countRuns("node", { agent: id }, abort), { everyMs: COUNT_MS });
  watch(() => {
    const { name, input: schema } = item() ?? {};
    fill(head, headOf(id, item() ?? {}));
    fill(trouble, troubleOf(item()));
    input.value = name === undefined ? "" : JSON.stringify(schema);
  });
  let known = item();
  watch(() => { // its file may change while it is looked at: the list says so first
    if (item() !== known) shown.refresh();
    known = item();
  });
  watch(() => { digest.value = shown.state.value.value?.digest ?? ""; });
  watch(() => {
    const { error } = shown.state.value;
    if (digest.value) return;
    fill(drawing, error ? error.status !== 422 && Notice({ text: errorWords(error), code: error.code, actions: [["Try again", shown.refresh]] }) : LoadingIndicator("Reading the workflow"));
  });
  watch(() => {
    const workflow = digest.value ? shown.state.peek().value : null;
    if (!workflow) return;
    const graph = workflow.nodes.length ? new DefinitionGraph(workflow) : null;
    if (graph) watch(() => graph.count(new Map((here.state.value.value?.groups ?? []).map((/** @type {any} */ { value, count: number }) => [value, number]))));
    fill(drawing, graph ? graph.element : h("p.faint", {}, "Its logic is a blueprint, the class ", h("code", {}, visible(workflow.blueprint ?? "")), ": a run is drawn as the calls that it makes."));
    fill(signals, workflow.signals.length > 0 && h("section.block", {}, h("h3.caps", {}, "Signals that it waits for"), h("ul.chips", {}, workflow.signals.map((/** @type {any} */ { name, node }) => h("li", {}, h("code", {}, visible(name)), node && h("small", {}, `at ${visible(node)}`))))));
  });
  watch(() => void fill(start, input.value && formOf(id, JSON.parse(input.value))));
  const body = h("div.detail-columns", {}, h("section.block", {}, h("h3.caps", {}, "Start it"), start), h("section.block", {}, h("h3.caps", {}, "Its last runs"), RunList({ app, query: { agent: id }, none: "No run of it that you see." }).element));
  watch(() => { body.hidden = !input.value; });
  return h("article.detail-body", { "aria-label": `Workflow ${visible(id)}` }, head, trouble, drawing, signals, body);
}

/** @type {(id: string, schema: any) => HTMLElement} */
function formOf(id, schema) {
  const form = new WorkflowForm({ id, input: schema }, (/** @type {any} */ { run_id: runId }) => { location.hash = addressOf("/run/:runId", { runId }); });
  return h("div", {}, !Object.keys(schema.properties ?? {}).length && h("p.faint", {}, "It takes no input."), form.element);
}

/** @type {(id: string, workflow: any) => any[]} */
function headOf(id, { name, description, version }) {
  return [
    h("div.detail-title", {}, h("h2", { dir: "auto" }, visible(name ?? id)), name !== undefined && h("a.btn", { href: addressOf("/board", {}, { agent: id }) }, "Its runs")),
    description && h("p.detail-about", { dir: "auto" }, visible(description)),
    name !== undefined && h("p.detail-facts", {}, h("code", {}, visible(id)), version && h("span", {}, `version ${count(version)} serves in place of its file`)),
  ];
}
