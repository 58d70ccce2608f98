// @ts-check
// One tool: what it does and changes, who uses it, what it takes, and its last calls.

import { Notice } from "../../ui/Notice.js";
import { duration, plural, ticking } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { listEveryAgent } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { labelOf } from "../../state/agents.js";
import { effectWords } from "../../state/words.js";
import { RunList } from "../RunList.js";
import { ToolCall } from "./ToolCall.js";

/** @param {{app: any, name: string, item: () => any}} given */
export function ToolDetail({ app, name, item }) {
  const head = h("header.detail-head"), facts = h("div.tool-facts"), call = h("div"), about = h("div");
  const agents = signal(/** @type {string[]} */ ([])), schema = signal("");
  const runs = RunList({ app, query: { tool: name }, none: "No run that you see has called it." });
  const known = resource(listEveryAgent);
  const nameOf = (/** @type {string} */ id) => labelOf(known.state.value.value?.agents, id);
  watch(() => {
    const tool = item();
    if (!tool) return;
    fill(head, headOf(tool));
    fill(about, tool.others > 0 && Notice({ tone: "wait", title: "Workers have different versions of it", text: `An update is under way, or workers of an old release are left: ${plural(tool.others, "other version")}. This is the first one.` }), tool.mcp?.changed && Notice({ tone: "wait", title: "Its server has another definition now", text: "No person has accepted it: `./callboard mcp accept` shows what changed." }));
    fill(facts, factsOf(tool, nameOf));
    agents.value = tool.agents;
    schema.value = JSON.stringify(tool.input_schema);
  });
  // Made again where the schema is another one alone, so that no typing is lost.
  watch(() => { if (schema.value) fill(call, ToolCall({ name, schema: JSON.parse(schema.value), agents: () => agents.value, item, nameOf, onCalled: runs.refresh })); });
  return h("article.detail-body", { "aria-label": `Tool ${visible(name)}` }, head, about, h("div.detail-columns", {},
    h("div", {}, h("section.block", {}, h("h3.caps", {}, "Call it"), call), h("section.block", {}, h("h3.caps", {}, "Runs that called it last"), runs.element)),
    h("div", {}, facts)));
}

/** @type {(tool: any) => any[]} */
function headOf({ name, title, description, effect, classification, needs_approval: asks, kind }) {
  const [first, ...more] = description.split(/\n{2,}/);
  return [
    h("div.detail-title", {}, h("h2.is-code", {}, visible(name))),
    h("p.tags", {}, h(`span.tag${effect === "unsafe" ? ".is-bad" : ""}`, {}, effect), h("span.tag", {}, classification.toLowerCase()), asks && h("span.tag.is-wait", {}, "a person approves each call"), kind && h("span.tag", {}, kind)),
    h("p.detail-about", { dir: "auto" }, visible(first)),
    more.map((/** @type {string} */ paragraph) => h("p", { dir: "auto" }, visible(paragraph))),
    h("p.faint", {}, effectWords(effect), title && [" A call is shown as ", h("q", { dir: "auto" }, visible(title)), "."]),
  ];
}

/** @type {(tool: any, nameOf: (id: string) => string) => any} */
function factsOf(tool, nameOf) {
  const rows = /** @type {[string, any][]} */ ([
    ["time limit", (Number.isInteger(tool.timeout_s) ? ticking : duration)(tool.timeout_s * 1000)],
    ["version", visible(tool.version)],
    ["maintainer", visible(tool.maintainer)],
    ["server", tool.mcp && visible(`${tool.mcp.server} / ${tool.mcp.tool}`)],
    ["roles", visible(tool.roles.join(", "))],
    ["hosts", tool.hosts && (visible(tool.hosts.join(", ")) || "none")],
    ["secrets", visible(tool.secrets.join(", "))],
    ["its result is", visible(tool.labels.join(", "))],
  ]).filter(([, value]) => value);
  return [
    h("section.block", {}, h("h3.caps", {}, `Used by ${plural(tool.agents.length, "agent")}`), h("ul.chips", {}, tool.agents.map((/** @type {string} */ id) => h("li", {}, h("a", { href: addressOf("/agents/:agentId", { agentId: id }) }, visible(nameOf(id))))))),
    h("section.block", {}, h("h3.caps", {}, "About"), h("dl.fields", {}, rows.map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]))),
    h("details.block", {}, h("summary", {}, "JSON Schema"), h("pre.result", { tabindex: "0", "aria-label": "JSON Schema" }, visible(asJson({ input: tool.input_schema, ...(tool.output_schema && { output: tool.output_schema }) })))),
  ];
}
