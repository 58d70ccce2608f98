// @ts-check
// The agents: which there are, what each is, its versions, and a try-out of two of them.

import { h } from "../../dom/h.js";
import { listEveryAgent } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { catalogue, definitionOf, definitionRows, styles } from "../catalogue.js";
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
    rowsOf: ({ agents, problems }) => definitionRows(agents, problems, hrefOf, ({ model, tools }) => `${model} ${tools.join(" ")}`),
    find: ({ agents, problems }, id) => definitionOf(agents, problems, id),
    open: (id, given) => AgentDetail({ app, id, ...given, onChange: list.refresh }),
    empty: () => [h("p", {}, "No agent can be used."), h("p.faint", {}, "An agent is a YAML file, here named assistant:"), h("pre", {}, "# config/agents/assistant.yaml\nname: Assistant\nmodel: auto\nsystem_prompt: You answer briefly.")],
  });
}

/** @type {(id: string) => string} */
function hrefOf(id) {
  return `#/agents/${encodeURIComponent(id)}`;
}
