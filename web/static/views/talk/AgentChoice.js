// Whom the next message goes to: chosen on the start page or beside the field, and remembered.

import { Welcome } from "./Welcome.js";
import { threadHash } from "../../router.js";

/** The agent of the conversation on the screen, or the one that is chosen for a new one. */
export class AgentChoice {
  constructor(talk) {
    Object.assign(this, { talk, app: talk.app, id: talk.app.history.recall("agent") });
  }

  choose = (id) => {
    this.id = id;
    this.app.history.remember("agent", id);
    this.follow(id);
    this.showWelcome();
  };

  /** Show the agent that the conversation has now. */
  follow(id) {
    if (id && this.app.agents.length) this.talk.composer.choose(id);
    this.#showDemo();
  }

  /** Offer the agents that were read. */
  showAgents() {
    const { agents } = this.app;
    const id = agents.some((agent) => agent.id === this.id) ? this.id : agents[0]?.id;
    this.talk.composer.showAgents(agents, this.talk.conversation.agent || id);
    this.showWelcome();
    this.#showDemo();
  }

  /** Show the start page, unless there is a conversation. */
  showWelcome() {
    const { conversation, composer, chat } = this.talk;
    if (conversation.threadId || conversation.stories.length) return;
    chat.showWelcome(Welcome({ ...this.app.catalogue, chosen: composer.agents.value || this.id, onAgent: this.choose, onStarter: (text) => this.talk.send(text), onStarted: (run) => { location.hash = threadHash(run.thread_id, run.run_id); }, onRetry: this.app.readAgents }));
    this.#showDemo();
  }

  #showDemo() {
    const agent = this.app.agents.find((each) => each.id === this.talk.composer.agents.value);
    this.talk.chat.demo.hidden = !(agent?.is_demo ?? agent?.model?.startsWith("demo/"));
  }
}
