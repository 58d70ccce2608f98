import { h, icon, say } from "../../dom/h.js";
import { spokenOf } from "../../state/story.js";
import { errorWords } from "../../state/words.js";
import { ChatHead } from "./ChatHead.js";
import { ChatTurns } from "./ChatTurns.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice, withCode } from "../../ui/Notice.js";

/**
 * The conversation: head, turns, and a place for the composer. A Conversation drives it.
 *
 * Beside the callbacks of the head, the composer and the notices of trouble it is given nameOf, fleet, act, isBehind,
 * onAgain and onEdit for its turns, and onNamed, onDetail, onTouched and onEvent.
 */
export class ChatWindow {
  constructor(given) {
    this.given = given;
    this.head = new ChatHead(given);
    this.turns = new ChatTurns(this);
    this.below = h("button.below", { type: "button", hidden: true, onclick: () => this.turns.follow.toEnd() }, icon("down"), "New below");
    this.demo = h("div.demo", { hidden: true }, h("p", {}, h("strong", {}, "Demo"), " ", "— not a language model. ", h("span.how", {}, withCode("Set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`, or start Ollama, then restart for real answers."))));
    this.spoken = h("div.offscreen", { role: "status", "aria-live": "polite" });
    this.element = h("main", { id: "talk", "aria-label": "Conversation" }, this.head.element, this.turns.element, h("div.dock", {}, h("div.dock-inner", {}, this.below, given.trouble, given.composer.element, this.demo)), this.spoken);
  }

  showWelcome(element) {
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

  showThread({ title, stories }) {
    this.head.name(title);
    this.turns.show(stories);
    if (!stories.length) this.#showAlone(title, Notice({ tone: "plain", text: "This conversation has no messages yet." }));
    this.turns.follow.jump();
  }

  showStory(story) {
    this.turns.put(story);
  }

  replaceStory(old, fresh) {
    this.turns.replace(old, fresh);
  }

  removeStory(story) {
    this.turns.remove(story);
  }

  touch(story, items, event) {
    this.turns.touch(story, items);
    this.given.onTouched();
    if (!event) return;
    const spoken = spokenOf(event, this.given.nameOf(story.agent, story.agent_name), story);
    if (spoken) say(this.spoken, spoken);
    this.given.onEvent(event);
  }

  showLine(state) {
    this.head.line.show(state);
  }

  showFailure(error, retry) {
    if (!this.turns.isEmpty) return this.complain(error);
    const missing = error.status === 404;
    this.#showAlone("Conversation", Notice({ title: missing ? "This conversation does not exist" : "The conversation could not be opened", text: errorWords(error), code: error.code, actions: missing ? [] : [["Try again", retry]] }));
  }

  /** Show the error of an action for some seconds. */
  complain(error) {
    const notice = Notice({ text: errorWords(error), code: error.code });
    this.turns.list.append(h("div.turn", {}, h("div.who"), h("div.said", {}, notice)));
    setTimeout(() => notice.parentElement?.parentElement?.remove(), 12_000);
  }

  named(threadId, title) {
    this.head.name(title);
    this.given.onNamed(threadId, title);
  }

  #showAlone(title, element) {
    this.turns.clear(h("div.welcome", {}, element));
    this.head.name(title);
  }
}
