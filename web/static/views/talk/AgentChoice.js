// @ts-check
// Whom the next message goes to: chosen on the start page or beside the field, and remembered.

import { Welcome } from "./Welcome.js";
import { threadHash } from "../../router.js";

/**
 * @typedef {object} TalkApp The page, as far as the conversation needs it.
 * @property {any[]} agents those that can be asked
 * @property {{agents: any[] | null, workflows: any[], problems: any[], error: any}} catalogue
 * @property {import("../../state/useConversation.js").Kept & {recall: (name: string) => any, remember: (name: string, value: unknown) => void, draft: (threadId: string | null) => string, setDraft: (threadId: string | null, text: string) => void}} history
 * @property {import("../../state/definitions.js").NameOf} nameOf
 * @property {{drawRate: (runId: string | undefined, counts: number[]) => void}} board
 * @property {{trouble: HTMLElement}} healthLine
 * @property {{fleet: import("../story/RunTurn.js").Fleet}} [health] there once the page is made
 * @property {() => void} readAgents
 * @property {() => void} threadsSoon
 * @property {() => void} showTitle
 * @property {() => void} mark
 * @property {(isOpen: boolean) => void} menu
 * @property {(hash: string) => void} replaceRoute
 */

/** The agent of the conversation on the screen, or the one that is chosen for a new one. */
export class AgentChoice {
  constructor(/** @type {import("./TalkView.js").TalkView} */ talk) {
    this.talk = talk;
    this.app = talk.app;
    /** @type {string} */
    this.id = talk.app.history.recall("agent");
  }

  choose = (/** @type {string} */ id) => {
    this.id = id;
    this.app.history.remember("agent", id);
    this.follow(id);
    this.showWelcome();
  };

  /** Show the agent that the conversation has now. */
  follow(/** @type {string} */ id) {
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
    chat.showWelcome(Welcome({ ...this.app.catalogue, chosen: composer.agents.value || this.id, onAgent: this.choose, onStarter: (/** @type {string} */ text) => this.talk.send(text), onStarted: (/** @type {{run_id: string, thread_id: string}} */ run) => { location.hash = threadHash(run.thread_id, run.run_id); }, onRetry: this.app.readAgents }));
    this.#showDemo();
  }

  #showDemo() {
    const agent = this.app.agents.find((each) => each.id === this.talk.composer.agents.value);
    this.talk.chat.demo.hidden = !(agent?.is_demo ?? agent?.model?.startsWith("demo/"));
  }
}
