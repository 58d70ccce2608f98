// The agents and workflows of the server, as far as they are read, and what is wrong with their files.

import { listAgents, listWorkflows } from "../services/api.js";
import { labelOf } from "./agents.js";

/** Reads them; `onAgents` is called after each attempt, `onWorkflows` where there are any. */
export class Definitions {
  #agents = null;
  #flows = { workflows: [], problems: [] };
  #error = null;
  #problems = [];

  constructor({ onAgents, onWorkflows }) {
    Object.assign(this, { onAgents, onWorkflows });
  }

  /** The agents, null before they are read, the workflows, and what is wrong with either. */
  get catalogue() {
    return { agents: this.#agents, workflows: this.#flows.workflows, problems: [...this.#problems, ...this.#flows.problems], error: this.#agents ? null : this.#error };
  }

  /** Return the name people know an agent or a workflow by. */
  nameOf = (id, given) => labelOf([...(this.#agents ?? []), ...this.#flows.workflows], id, given);

  readAgents = async () => {
    try {
      const { agents, problems } = await listAgents();
      this.#agents = agents;
      this.#problems = problems;
      this.#error = null;
    } catch (error) {
      this.#error = error;
    }
    this.onAgents();
  };

  // Where they cannot be read, the agents cannot either, and their notice says so.
  readWorkflows = async () => {
    const { workflows, problems } = await listWorkflows().catch(() => this.#flows);
    this.#flows = { workflows, problems };
    if (workflows.length || problems.length) this.onWorkflows();
  };
}
