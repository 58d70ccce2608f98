import { h, icon, say } from "../../dom/h.js";
import { useFollowEnd } from "../../dom/useFollowEnd.js";
import { isOver, spokenOf } from "../../state/story.js";
import { errorWords } from "../../state/words.js";
import { ChatHead } from "./ChatHead.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice, withCode } from "../../ui/Notice.js";
import { RunTurn } from "../story/RunTurn.js";

// Older turns come when asked for: a thread of a thousand runs opens as fast as one of ten.
const SHOWN_AT_ONCE = 30;

/**
 * The conversation: head, turns, and a place for the composer. A Conversation drives it.
 *
 * Beside the callbacks of the head it is given nameOf, fleet, act and isBehind for its turns, and onAgain, onEdit,
 * onNamed, onDetail, onTouched and onEvent.
 */
export class ChatWindow {
  #turns = new Map();
  #older = [];

  constructor({ onStop, onControl, onRetry, onMenu, onCopy, composer, trouble, ...given }) {
    Object.assign(this, given);
    this.head = new ChatHead({ onStop, onControl, onRetry, onMenu, onCopy });
    this.turns = h("div.turns", { role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.talk = h("div.talk", { tabindex: "-1" }, this.turns);
    this.below = h("button.below", { type: "button", hidden: true, onclick: () => this.follow.toEnd() }, icon("down"), "New below");
    this.demo = h("div.demo", { hidden: true }, h("p", {}, h("strong", {}, "Demo"), " ", "— not a language model. ", h("span.how", {}, withCode("Set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`, or start Ollama, then restart for real answers."))));
    this.spoken = h("div.offscreen", { role: "status", "aria-live": "polite" });
    this.element = h("main", { id: "talk", "aria-label": "Conversation" }, this.head.element, this.talk, h("div.dock", {}, h("div.dock-inner", {}, this.below, trouble, composer.element, this.demo)), this.spoken);
    this.follow = useFollowEnd(this.talk, this.turns, (away) => { this.below.hidden = !away; });
    this.talk.addEventListener("click", (event) => event.target.closest("summary, .tool-head, .quiet, .graph") && this.follow.hold(), true);
    this.sight = new IntersectionObserver((entries) => this.#seen(entries), { root: this.talk, rootMargin: "200px" });
  }

  showWelcome(element) {
    // Choosing an agent rebuilds the list; its place on the screen stays.
    const before = this.turns.querySelector(".welcome") ? this.talk.scrollTop : 0;
    this.#clear();
    this.head.name("");
    this.turns.append(element);
    this.follow.rest();
    this.talk.scrollTop = before;
  }

  showLoading() {
    this.#clear();
    this.head.name("…");
    this.turns.append(h("div.welcome", {}, LoadingIndicator("Opening the conversation")));
  }

  showThread({ title, stories }) {
    this.#clear();
    this.head.name(title);
    this.#older = stories.slice(0, -SHOWN_AT_ONCE);
    if (this.#older.length) this.turns.append(this.#earlier());
    for (const story of stories.slice(-SHOWN_AT_ONCE)) this.#add(story);
    if (!stories.length) this.turns.append(h("div.welcome", {}, Notice({ tone: "plain", text: "This conversation has no messages yet." })));
    this.follow.jump();
  }

  showStory(story) {
    if (!this.#turns.size) this.turns.replaceChildren();
    if (this.#turns.has(story)) this.#turns.get(story).touch();
    else this.#add(story);
    this.follow.jump();
  }

  replaceStory(old, fresh) {
    const turn = this.#turns.get(old);
    if (!turn) return;
    const next = this.#make(fresh);
    // Until it is laid out it is taken to be as high as the one before: else the end moves, and the place with it.
    next.element.style.containIntrinsicBlockSize = `auto ${turn.element.offsetHeight}px`;
    turn.element.replaceWith(next.element);
    this.#turns.delete(old);
  }

  removeStory(story) {
    this.#turns.get(story)?.element.remove();
    this.#turns.delete(story);
  }

  touch(story, items, event) {
    this.follow.live = !isOver(story);
    this.#turns.get(story)?.touch(items);
    this.onTouched();
    if (!event) return;
    this.#speak(story, event);
    this.onEvent(event);
  }

  showLine(state) {
    this.head.line.show(state);
  }

  showFailure(error, retry) {
    const missing = error.status === 404;
    const notice = Notice({ title: missing ? "This conversation does not exist" : "The conversation could not be opened", text: errorWords(error), code: error.code, actions: missing ? [] : [["Try again", retry]] });
    if (this.#turns.size) return this.complain(error);
    this.#clear();
    this.head.name("Conversation");
    this.turns.append(h("div.welcome", {}, notice));
  }

  /** Show the error of an action for some seconds. */
  complain(error) {
    const notice = Notice({ text: errorWords(error), code: error.code });
    this.turns.append(h("div.turn", {}, h("div.who"), h("div.said", {}, notice)));
    setTimeout(() => notice.parentElement?.parentElement?.remove(), 12_000);
  }

  named(threadId, title) {
    this.head.name(title);
    this.onNamed(threadId, title);
  }

  /** Bring one run into view, and mark it; earlier turns come with it. */
  scrollToRun(runId) {
    const isThere = (story) => story.run_id === runId;
    while (this.#older.some(isThere)) this.#showEarlier(this.turns.querySelector(".earlier"));
    const turns = [...this.#turns];
    const [story, turn] = turns.find(([one]) => isThere(one)) ?? [];
    for (const marked of this.turns.querySelectorAll("[aria-current]")) marked.removeAttribute("aria-current");
    if (!turn) return this.complain({ message: `There is no run '${runId}' in this conversation. It may have been removed.`, code: "run_unknown" });
    turn.element.setAttribute("aria-current", "true");
    // What the newest run asks stands at its end, below the graph of a workflow.
    const mayAsk = !isOver(story) && (story.kind === "workflow" || story.status === "waiting");
    if (mayAsk && story === turns.at(-1)[0]) return this.follow.jump();
    this.follow.leave();
    requestAnimationFrame(() => bring(turn.element));
  }

  /** Return the approval that waits for a decision, if one is in view. */
  openApproval() {
    for (const turn of this.#turns.values()) if (turn.openApproval()) return turn.openApproval();
    return null;
  }

  /** Look again at what depends on the time: queued notes. */
  tick() {
    for (const turn of this.#turns.values()) if (!isOver(turn.story)) turn.touch();
  }

  #clear() {
    this.sight.disconnect();
    this.#turns.clear();
    this.#older = [];
    this.turns.replaceChildren();
    this.element.classList.remove("has-turns");
    this.below.hidden = true;
  }

  #make(story) {
    const turn = new RunTurn(story, this);
    this.#turns.set(story, turn);
    this.element.classList.add("has-turns");
    this.sight.observe(turn.element);
    return turn;
  }

  #add(story) {
    this.turns.append(this.#make(story).element);
  }

  #earlier() {
    const button = h("button.btn.earlier", { type: "button", onclick: () => this.#showEarlier(button) }, `Show ${Math.min(SHOWN_AT_ONCE, this.#older.length)} earlier`);
    return button;
  }

  #showEarlier(button) {
    this.follow.hold();
    const before = this.talk.scrollHeight;
    const batch = this.#older.splice(-SHOWN_AT_ONCE);
    button.after(...batch.map((story) => this.#make(story).element));
    if (this.#older.length) button.replaceWith(this.#earlier());
    else button.remove();
    this.talk.scrollTop += this.talk.scrollHeight - before;
  }

  // Tool calls read from messages lack their duration and effect, and messages hold neither the texts that a run ended
  // without nor what the nodes of a workflow did: the events are asked for when the turn is looked at.
  async #seen(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.sight.unobserve(target);
      const story = [...this.#turns.values()].find((turn) => turn.element === target)?.story;
      if (!story || (story.status === "succeeded" && story.kind !== "workflow" && !story.items.some((item) => item.kind === "tool"))) continue;
      const fresh = await this.onDetail(story);
      if (fresh) this.replaceStory(story, fresh);
    }
  }

  #speak(story, event) {
    const spoken = spokenOf(event, this.nameOf(story.agent, story.agent_name), story);
    if (spoken) say(this.spoken, spoken);
  }
}

// What stands above an element gets its height once it is near: the place moves for a few frames.
function bring(element, frames = 8) {
  element.scrollIntoView({ block: "start" });
  if (frames) requestAnimationFrame(() => bring(element, frames - 1));
}
