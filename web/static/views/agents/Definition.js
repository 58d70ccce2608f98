// @ts-check
// What an agent's definition says, as it serves now: model, instructions, tools, limits, labels.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { count } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { getVersion, listTools } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { errorWords } from "../../state/words.js";
import { servingOf } from "../../state/versions.js";

const GROUPS = /** @type {[string, string[]][]} */ ([
  ["Model", ["model", "api_base", "api_key_env", "fallbacks", "params", "output_schema"]],
  ["Limits", ["max_iterations", "history_chars", "timeouts", "compaction", "budget", "on_unknown", "ask_missing_arguments", "if_busy", "on_waiting", "on_disconnect"]],
  ["Guards", ["guardrails", "prompt_guard", "tool_overrides", "databases"]],
  ["Labels and access", ["category_tag", "listed", "access", "queue", "priority", "observers"]],
  ["Messages to begin with", ["starters"]],
]);
const ELSEWHERE = new Set(["name", "description", "system_prompt", "tools", ...GROUPS.flatMap(([, names]) => names)]);

/** @param {{id: string, item: () => any, rows: () => any[], versions: any}} given */
export function Definition({ id, item, rows, versions }) {
  const content = signal(/** @type {any} */ (undefined)), error = signal(/** @type {any} */ (null));
  const tools = resource(listTools);
  const serving = signal(0);
  watch(() => { serving.value = servingOf(rows(), item()?.version); });
  watch(() => {
    const number = serving.value;
    let isOver = false;
    if (number) getVersion(id, number).then((value) => !isOver && (content.value = value), (reason) => !isOver && (error.value = reason));
    onEnd(() => { isOver = true; });
  });
  const facts = h("div.definition"), note = h("div.detail-note");
  watch(() => {
    const { value, error: failure } = versions.state.value;
    const problem = error.value ?? failure;
    if (problem?.status === 403) fill(note, Notice({ tone: "plain", title: "Instructions and limits are for operators and administrators", text: problem.message }));
    else if (problem) fill(note, Notice({ text: errorWords(problem), code: problem.code }));
    else fill(note, content.value === undefined && (value === undefined || serving.value > 0) && LoadingIndicator("Reading the definition"));
  });
  watch(() => void fill(facts, content.value ? parts(id, content.value, tools.state.value.value) : toolsOf(item()?.tools ?? [], tools.state.value.value, id), content.value && h("p.faint", {}, `As version ${count(serving.value)} says it; what is not named is as usual.`)));
  return h("div", {}, note, facts);
}

/** @type {(id: string, content: any, catalogue: any[] | undefined) => any[]} */
function parts(id, content, catalogue) {
  const rest = Object.keys(content).filter((name) => !ELSEWHERE.has(name));
  return [
    section("Instructions", h("div.instructions", { dir: "auto", tabindex: "0", "aria-label": "Instructions" }, visible(content.system_prompt ?? ""))),
    toolsOf(content.tools ?? [], catalogue, id),
    [...GROUPS, /** @type {[string, string[]]} */ (["More", rest])].map(([title, names]) => fields(title, content, names)),
  ];
}

/** @type {(title: string, ...content: any[]) => HTMLElement} */
function section(title, ...content) {
  return h("section.block", {}, h("h3.caps", {}, title), content);
}

// A tool's line names a function, an agent or a server; the catalogue has the names that models call.
/** @type {(lines: string[], catalogue: any[] | undefined, id: string) => any} */
function toolsOf(lines, catalogue, id) {
  const known = (catalogue ?? []).filter(({ agents }) => agents.includes(id));
  if (!lines.length && !known.length) return section("Tools", h("p.faint", {}, "It has no tool: it answers by its model alone."));
  const names = new Set(known.map(({ name }) => name));
  const unloaded = lines.filter((line) => !line.startsWith("mcp:") && !names.has(line) && !names.has(line.split(/[:/]/).at(-1) ?? ""));
  return section("Tools", h("ul.chips", {}, known.map(({ name, effect }) => h("li", {}, h("a", { href: addressOf("/tools/:name", { name }) }, h("code", {}, visible(name))), h("small", {}, effect))), unloaded.map((line) => h("li", {}, h("code", {}, visible(line)), h("small", {}, catalogue ? "not loaded by a worker" : "")))));
}

/** @type {(title: string, content: any, names: string[]) => any} */
function fields(title, content, names) {
  const own = names.filter((name) => content[name] !== undefined && content[name] !== null);
  return own.length > 0 && section(title, h("dl.fields", {}, own.map((name) => [h("dt", {}, visible(name)), h("dd", { dir: "auto" }, valueOf(content[name]))])));
}

/** @type {(value: any) => any} */
function valueOf(value) {
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.map((each) => h("div", {}, visible(each)));
  return typeof value === "object" ? h("pre", {}, visible(asJson(value))) : visible(String(value));
}
