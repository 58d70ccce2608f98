// @ts-check
// The agents: which there are, what each is, its versions, and a try-out of two of them.

import { h } from "../../dom/h.js";
import { listEveryAgent } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { catalogue, styles } from "../catalogue.js";
import { AgentDetail } from "./AgentDetail.js";

export { styles };

const REFRESH_MS = 20_000;

/** Return the view; `app` is the page. */
export function open(/** @type {any} */ app) {
  const list = resource(listEveryAgent, { everyMs: REFRESH_MS });
  return catalogue({
    name: "agents",
    title: "Agents",
    noun: "agent",
    param: "agentId",
    list,
    rowsOf,
    find,
    open: (id, given) => AgentDetail({ app, id, ...given, onChange: list.refresh }),
    empty: () => [h("p", {}, "No agent can be used."), h("p.faint", {}, "An agent is a YAML file, here named assistant:"), h("pre", {}, "# config/agents/assistant.yaml\nname: Assistant\nmodel: auto\nsystem_prompt: You answer briefly.")],
  });
}

/** @type {(answer: {agents: any[], problems: any[]}) => import("../../ui/List.js").ListRow[]} */
function rowsOf({ agents, problems }) {
  const ids = new Set(agents.map(({ id }) => id));
  const broken = problems.filter(({ id }) => !ids.has(id)).map(({ id, detail }) => ({ key: id, title: id, note: detail.replace(/^\S*\//, ""), href: hrefOf(id), sign: "failed", signWords: "cannot be used" }));
  const names = agents.map(({ name }) => name.trim().toLocaleLowerCase());
  const usable = agents.map((/** @type {any} */ agent) => ({
    key: agent.id,
    title: agent.name,
    code: names.filter((name) => name === agent.name.trim().toLocaleLowerCase()).length > 1 || agent.name.toLowerCase() !== agent.id ? agent.id : "",
    note: agent.problem ? "its file cannot be used" : agent.description,
    words: `${agent.model} ${agent.tools.join(" ")}`,
    href: hrefOf(agent.id),
    ...(agent.problem && { sign: "waiting", signWords: "serves an earlier version" }),
  }));
  return [...(broken.length ? [{ key: " broken", title: "Cannot be used", isHeading: true }, ...broken, { key: " usable", title: "Can be used", isHeading: true }] : []), ...usable];
}

// An agent whose file is broken may serve as an earlier version: then it is in both lists.
/** @type {(answer: {agents: any[], problems: any[]}, id: string) => any} */
function find({ agents, problems }, id) {
  const agent = agents.find((each) => each.id === id), broken = problems.find((each) => each.id === id);
  return (agent || broken) && { ...agent, broken };
}

/** @type {(id: string) => string} */
function hrefOf(id) {
  return `#/agents/${encodeURIComponent(id)}`;
}
