// @ts-check
// The agents and workflows of the server, as far as they are read, and what is wrong with their files.

import { listAgents, listWorkflows } from "../services/api.js";
import { labelOf } from "./agents.js";

/** @import { Agents, Workflows } from "../../../clients/typescript/src/types.js" */
/** @typedef {(id?: string, given?: string) => string} NameOf Returns the name people know an agent or a workflow by; `given` is the one that an event gave. */
/** @typedef {{agents: Agents["agents"] | null, workflows: Workflows["workflows"], problems: Agents["problems"], error: any}} Catalogue The agents, null before they are read, the workflows, and what is wrong with either. */

/** Reads them; `onAgents` is called after each attempt, `onWorkflows` where there are any. */
export class Definitions {
  /** @type {Pick<Catalogue, "agents" | "problems">} */
  #found = { agents: null, problems: [] };
  /** @type {Workflows} */
  #flows = { workflows: [], problems: [] };
  /** @type {any} */
  #error;

  constructor(/** @type {{onAgents: () => void, onWorkflows: () => void}} */ { onAgents, onWorkflows }) {
    this.onAgents = onAgents;
    this.onWorkflows = onWorkflows;
  }

  /** @returns {Catalogue} */
  get catalogue() {
    const { agents, problems } = this.#found;
    return { agents, workflows: this.#flows.workflows, problems: [...problems, ...this.#flows.problems], error: agents ? null : this.#error };
  }

  /** @type {NameOf} */
  nameOf = (id, given) => labelOf([...(this.#found.agents ?? []), ...this.#flows.workflows], id, given);

  readAgents = async () => {
    try {
      this.#found = await listAgents();
    } catch (error) {
      this.#error = error;
    }
    this.onAgents();
  };

  // Where they cannot be read, the agents cannot either, and their notice says so.
  readWorkflows = async () => {
    const { workflows, problems } = (this.#flows = await listWorkflows().catch(() => this.#flows));
    if (workflows.length || problems.length) this.onWorkflows();
  };
}
