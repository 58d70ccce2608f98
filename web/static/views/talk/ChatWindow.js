// @ts-check
import { h, icon, say } from "../../dom/h.js";
import { spokenOf } from "../../state/story.js";
import { ChatHead } from "./ChatHead.js";
import { ChatTurns } from "./ChatTurns.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { ErrorNotice, Notice, withCode } from "../../ui/Notice.js";

/** @typedef {import("../../state/story.js").Story} Story */
/** @typedef {import("../../state/story.js").Item} Item */
/** @typedef {import("../../state/story.js").RunEvent} RunEvent */
/** @typedef {import("../../state/story.js").Failure} Failure */
/** @typedef {ConstructorParameters<typeof ChatHead>[0] & import("../story/RunTurn.js").TurnContext} OfParts What the head and the turns are given. */
/** @typedef {{composer: import("./Composer.js").Composer, trouble: HTMLElement, onNamed: (threadId: string | null, title: string) => void, onDetail: (story: Story) => Promise<Story | null>, onTouched: () => void, onEvent: (event: RunEvent) => void}} Own */

/** The conversation: head, turns, and a place for the composer. A Conversation drives it. */
export class ChatWindow {
  constructor(/** @type {OfParts & Own} */ given) {
    this.given = given;
    this.head = new ChatHead(given);
    this.turns = new ChatTurns(this);
    this.below = h("button.below", { type: "button", hidden: true, onclick: () => this.turns.follow.toEnd() }, icon("down"), "New below");
    this.demo = h("div.demo", { hidden: true }, h("p", {}, h("strong", {}, "Demo"), " ", "— not a language model. ", h("span.how", {}, withCode("Set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`, or start Ollama, then restart for real answers."))));
    this.spoken = h("div.offscreen", { role: "status", "aria-live": "polite" });
    this.element = h("main", { id: "talk", "aria-label": "Conversation" }, this.head.element, this.turns.element, h("div.dock", {}, h("div.dock-inner", {}, this.below, given.trouble, given.composer.element, this.demo)), this.spoken);
  }

  showWelcome(/** @type {HTMLElement} */ element) {
    // Choosing an agent rebuilds the list; its place on the screen stays.
    const { element: scroller, list, follow } = this.turns, before = list.querySelector(".welcome") ? scroller.scrollTop : 0;
    this.turns.clear(element);
    this.head.name("");
    follow.rest();
    scroller.scrollTop = before;
  }

  showLoading() {
    this.#showAlone("…", LoadingIndicator("Opening the conversation"));
  }

  showThread(/** @type {{title: string, stories: Story[]}} */ { title, stories }) {
    this.head.name(title);
    this.turns.show(stories);
    if (!stories.length) this.#showAlone(title, Notice({ tone: "plain", text: "This conversation has no messages yet." }));
    this.turns.follow.jump();
  }

  /** @param {Story} story @param {Item[]} items @param {RunEvent} [event] */
  touch(story, items, event) {
    this.turns.touch(story, items);
    this.given.onTouched();
    if (!event) return;
    const spoken = spokenOf(event, this.given.nameOf(story.agent, story.agent_name), story);
    if (spoken) say(this.spoken, spoken);
    this.given.onEvent(event);
  }

  showLine(/** @type {import("../../ui/LineState.js").Line} */ state) {
    this.head.line.show(state);
  }

  showFailure(/** @type {Failure} */ error, /** @type {() => void} */ retry) {
    if (!this.turns.isEmpty) return this.complain(error);
    const missing = error.status === 404;
    this.#showAlone("Conversation", ErrorNotice(error, { title: missing ? "This conversation does not exist" : "The conversation could not be opened", actions: missing ? [] : [["Try again", retry]] }));
  }

  /** Show the error of an action for some seconds. */
  complain(/** @type {Failure} */ error) {
    const notice = ErrorNotice(error);
    this.turns.list.append(h("div.turn", {}, h("div.who"), h("div.said", {}, notice)));
    setTimeout(() => notice.parentElement?.parentElement?.remove(), 12_000);
  }

  named(/** @type {string | null} */ threadId, /** @type {string} */ title) {
    this.head.name(title);
    this.given.onNamed(threadId, title);
  }

  #showAlone(/** @type {string} */ title, /** @type {HTMLElement} */ element) {
    this.turns.clear(h("div.welcome", {}, element));
    this.head.name(title);
  }
}
