// @ts-check
// The conversation: what is typed, the thread on the screen, and its runs, which stream on while another view is shown.

import { ChatWindow } from "./ChatWindow.js";
import { Composer } from "./Composer.js";
import { paintSoon } from "../../dom/paint.js";
import { Conversation } from "../../state/useConversation.js";
import { useRate } from "../../state/useRate.js";
import { threadHash, threadOfRoute } from "../../router.js";
import { fleetOf } from "../../state/fleet.js";
import { ownerOf, threadOf } from "../../state/me.js";
import { isPiece } from "../../state/story.js";
import { AgentChoice } from "./AgentChoice.js";

/** @typedef {import("../../state/story.js").Story} Story */

/** A view that is always there; `app` has the agents and workflows, the threads, the board and the health. */
export class TalkView {
  /** @type {import("../../state/useTurnActions.js").Act | null} */ #acts = null;

  constructor(/** @type {import("./AgentChoice.js").TalkApp} */ app) {
    this.app = app;
    this.rate = useRate();
    this.agent = new AgentChoice(this);
    this.composer = new Composer({ onSend: this.send, onAgent: this.agent.choose, onDraft: (/** @type {string} */ text) => this.app.history.setDraft(this.conversation?.threadId, text) });
    this.chat = new ChatWindow({
      nameOf: app.nameOf,
      composer: this.composer,
      trouble: app.healthLine.trouble,
      fleet: () => app.health?.fleet ?? fleetOf(null),
      act: this.act,
      isBehind: (/** @type {Story} */ story) => this.conversation.openStory !== story,
      onStop: () => this.conversation.stop(),
      onControl: (/** @type {string} */ verb) => this.act(verb, /** @type {Story} */ (this.conversation.openStory)),
      onRetry: () => this.conversation.hurry(),
      onMenu: () => app.menu(true),
      onCopy: async () => (await import("../../state/markdown.js")).conversationOf(this.conversation, app.nameOf),
      onAgain: (/** @type {Story} */ story) => this.#again(story),
      onEdit: (/** @type {Story} */ story) => this.#edit(story),
      onNamed: (/** @type {string | null} */ threadId) => this.#named(threadId),
      onDetail: (/** @type {Story} */ story) => this.conversation.detail(story),
      onTouched: () => paintSoon(this.showHead),
      onEvent: (/** @type {import("../../state/story.js").RunEvent} */ event) => this.#noteEvent(event),
    });
    /** @type {Conversation} */ this.conversation = new Conversation(this.chat, this.app.history);
    this.element = this.chat.element;
    const approval = (/** @type {string} */ decision) => () => this.chat.turns.openApproval()?.press(decision);
    this.keys = { c: () => this.composer.focus(), s: () => this.conversation.stop(), a: approval("approve"), e: approval("edit"), r: approval("reject") };
  }

  /** What the window is called: the conversation, with a sign of its open or failed run. */
  get title() {
    const open = this.conversation.openStory;
    const mark = open ? (open.status === "waiting" ? "◐ " : "● ") : this.#story?.end?.status === "failed" ? "✕ " : "";
    return `${mark}${this.conversation.title || "New conversation"}`;
  }

  /** The address of what is shown. */
  get hash() {
    return this.conversation.threadId ? threadHash(this.conversation.threadId) : "#/";
  }

  get #story() {
    return this.conversation.openStory ?? this.conversation.stories.findLast((each) => each.run_id);
  }

  /** Show the thread of a route, or a new conversation; its field takes the focus where plain keys have no other use. */
  show(/** @type {import("../../router.js").Route} */ route, /** @type {boolean} */ takesFocus) {
    const isThread = route.name === "thread", { runId } = route.params;
    const threadId = isThread ? threadOfRoute(route) : null;
    // Another principal's conversation is read; a message would begin one's own.
    document.body.toggleAttribute("data-others", Boolean(threadId && threadOf(threadId).owner));
    if (!isThread || threadId !== this.conversation.threadId) {
      this.rate.reset();
      if (!isThread) this.#openNew(takesFocus);
      else this.conversation.open(/** @type {string} */ (threadId)).then(() => runId && this.chat.turns.showRun(runId));
      this.composer.write(this.app.history.draft(threadId));
    } else if (runId) this.chat.turns.showRun(runId);
  }

  /** @type {(input: string, ifBusy?: string) => Promise<void>} */ send = async (input, ifBusy) => {
    const story = this.conversation.send({ agent: this.composer.agents.value, input, ifBusy });
    this.app.history.setDraft(this.conversation.threadId, "");
    await story;
    this.app.threadsSoon();
  };

  // What the buttons of a turn do is loaded when one is first pressed.
  act = async (/** @type {Parameters<import("../../state/useTurnActions.js").Act>} */ ...given) => {
    try {
      const { useTurnActions } = await import("../../state/useTurnActions.js");
      this.#acts ??= useTurnActions(this.conversation, { onFork: (threadId) => { location.hash = threadHash(threadId); } });
    } catch (/** @type {any} */ error) {
      return void this.chat.complain(error);
    }
    return this.#acts(...given);
  };

  showHead = () => {
    this.chat.head.show(this.#story, this.rate.perSecond());
    this.composer.showOpenRun(Boolean(this.conversation.openStory));
    document.body.toggleAttribute("data-workflow", this.#story?.kind === "workflow"); // it takes no message
    this.app.board.drawRate(this.conversation.followed?.run_id, this.rate.counts());
    this.app.showTitle();
  };

  tick() {
    this.showHead();
    this.chat.turns.tick();
  }

  /** Show the agents and workflows that were read, also in what has been said. */
  showCatalogue() {
    this.agent.showAgents();
    for (const story of this.conversation.stories) this.chat.touch(story, story.items.filter(({ kind }) => kind === "child")); // it has an agent's name
  }

  #openNew(/** @type {boolean} */ takesFocus) {
    this.conversation.close();
    this.agent.showWelcome();
    paintSoon(this.showHead);
    if (takesFocus && matchMedia("(min-width: 761px)").matches) this.composer.focus();
  }

  #named(/** @type {string | null} */ threadId) {
    if (threadId && document.body.dataset.page === "talk" && location.hash.split("/run/")[0] !== threadHash(threadId)) this.app.replaceRoute(threadHash(threadId));
    this.agent.follow(this.conversation.agent);
    this.app.mark();
    paintSoon(this.showHead);
  }

  #noteEvent(/** @type {import("../../state/story.js").RunEvent} */ event) {
    if (isPiece(event)) this.rate.note();
    if (event.type === "end") this.app.threadsSoon();
    if (event.type === "handover") this.composer.choose(event.to_agent);
    paintSoon(this.showHead);
  }

  // A run of one's own is retried with what it has recorded; a message that never arrived is sent again.
  #again(/** @type {Story} */ story) {
    return story.unsent || !story.run_id || ownerOf(story.principal) !== "you" ? this.conversation.again(story) : this.act("retry", story);
  }

  #edit(/** @type {Story} */ story) {
    this.conversation.withdraw(story);
    this.composer.write(story.input);
    this.composer.focus();
    this.agent.showWelcome();
  }
}
