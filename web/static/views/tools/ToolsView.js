// @ts-check
// The tools of all agents, as workers have loaded them.

import { h } from "../../dom/h.js";
import { listTools } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { catalogue, styles } from "../catalogue.js";
import { ToolDetail } from "./ToolDetail.js";

export { styles };

const REFRESH_MS = 20_000;

/** Return the view; `app` is the page. */
export function open(/** @type {any} */ app) {
  return catalogue({
    name: "tools",
    title: "Tools",
    noun: "tool",
    param: "name",
    list: resource(listTools, { everyMs: REFRESH_MS }),
    rowsOf: (tools) => tools.filter((/** @type {any} */ { name }, /** @type {number} */ at) => tools.findIndex((/** @type {any} */ other) => other.name === name) === at).map(rowOf),
    find: (tools, name) => merged(tools.filter((/** @type {any} */ tool) => tool.name === name)),
    open: (name, given) => ToolDetail({ app, name, ...given }),
    empty: () => [h("p", {}, "No worker has loaded a tool yet."), h("p.faint", {}, "The catalogue is what living workers have loaded; start one:"), h("pre", {}, "./callboard worker")],
  });
}

/** @type {(tool: any) => import("../../ui/List.js").ListRow} */
function rowOf({ name, description, effect, agents, needs_approval: asks, mcp }) {
  return { key: name, title: name, note: description.split("\n")[0], code: effect, words: [...agents, mcp?.server].join(" "), href: `#/tools/${encodeURIComponent(name)}`, ...(asks && { sign: "waiting", signWords: "asks first" }) };
}

// During an update two versions of a tool are there, each with the agents that use it like this.
/** @type {(versions: any[]) => any} */
function merged(versions) {
  const [first, ...others] = versions;
  return first && { ...first, agents: [...new Set(versions.flatMap(({ agents }) => agents))], others: others.length };
}
