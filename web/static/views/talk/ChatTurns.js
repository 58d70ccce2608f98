// @ts-check
// The turns of a conversation: the latest at once, earlier ones when asked for, and the place at which the reader is.

import { h } from "../../dom/h.js";
import { useFollowEnd } from "../../dom/useFollowEnd.js";
import { isOver } from "../../state/story.js";
import { RunTurn } from "../story/RunTurn.js";

// Older turns come when asked for: a thread of a thousand runs opens as fast as one of ten.
const SHOWN_AT_ONCE = 30;

/** @typedef {import("../../state/story.js").Story} Story */

/** The list of them in what scrolls it. `chat` is the window that they are in, with what they are given. */
export class ChatTurns {
  /** @type {Map<Story, RunTurn>} */ #turns = new Map();
  /** @type {Story[]} */ #older = [];

  constructor(/** @type {import("./ChatWindow.js").ChatWindow} */ chat) {
    this.chat = chat;
    this.list = h("div.turns", { role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.element = h("div.talk", { tabindex: "-1" }, this.list);
    this.follow = useFollowEnd(this.element, this.list, (/** @type {boolean} */ away) => { chat.below.hidden = !away; });
    this.element.addEventListener("click", (/** @type {Event} */ event) => /** @type {Element} */ (event.target).closest("summary, .tool-head, .quiet, .graph") && this.follow.hold(), true);
    this.sight = new IntersectionObserver((entries) => this.#seen(entries), { root: this.element, rootMargin: "200px" });
  }

  get isEmpty() {
    return !this.#turns.size;
  }

  /** Show these elements in place of all turns. */
  clear(/** @type {HTMLElement[]} */ ...elements) {
    this.sight.disconnect();
    this.#turns.clear();
    this.#older = [];
    this.list.replaceChildren(...elements);
    this.chat.element.classList.remove("has-turns");
    this.chat.below.hidden = true;
  }

  /** Show the turns of a thread. */
  show(/** @type {Story[]} */ stories) {
    this.clear();
    this.#older = stories.slice(0, -SHOWN_AT_ONCE);
    if (this.#older.length) this.list.append(this.#earlier());
    for (const story of stories.slice(-SHOWN_AT_ONCE)) this.#add(story);
  }

  /** Show a story at the end, or what has changed of one that is there. */
  put(/** @type {Story} */ story) {
    if (!this.#turns.size) this.list.replaceChildren();
    const turn = this.#turns.get(story);
    if (turn) turn.touch();
    else this.#add(story);
    this.follow.jump();
  }

  replace(/** @type {Story} */ old, /** @type {Story} */ fresh) {
    const turn = this.#turns.get(old);
    if (!turn) return;
    const next = this.#make(fresh);
    // Until it is laid out it is taken to be as high as the one before: else the end moves, and the place with it.
    next.element.style.containIntrinsicBlockSize = `auto ${turn.element.offsetHeight}px`;
    turn.element.replaceWith(next.element);
    this.#turns.delete(old);
  }

  remove(/** @type {Story} */ story) {
    this.#turns.get(story)?.element.remove();
    this.#turns.delete(story);
  }

  touch(/** @type {Story} */ story, /** @type {import("../../state/story.js").Item[]} */ items) {
    this.follow.live = !isOver(story);
    this.#turns.get(story)?.touch(items);
  }

  /** Bring one run into view, and mark it; earlier turns come with it. */
  showRun(/** @type {string} */ runId) {
    const isThere = (/** @type {Story} */ story) => story.run_id === runId;
    while (this.#older.some(isThere)) this.#showEarlier(/** @type {Element} */ (this.list.querySelector(".earlier")));
    const turns = [...this.#turns.values()], turn = turns.find(({ story }) => isThere(story));
    for (const marked of this.list.querySelectorAll("[aria-current]")) marked.removeAttribute("aria-current");
    if (!turn) return this.chat.complain({ message: `There is no run '${runId}' in this conversation. It may have been removed.`, code: "run_unknown" });
    const { story } = turn;
    turn.element.setAttribute("aria-current", "true");
    // What the newest run asks stands at its end, below the graph of a workflow.
    const mayAsk = !isOver(story) && (story.kind === "workflow" || story.status === "waiting");
    if (mayAsk && turn === turns.at(-1)) return this.follow.jump();
    this.follow.leave();
    requestAnimationFrame(() => bring(turn.element));
  }

  /** Return the approval that waits for a decision, if one is in view. */
  openApproval() {
    return [...this.#turns.values()].map(({ items }) => items.openApproval()).find(Boolean);
  }

  /** Look again at what depends on the time: queued notes. */
  tick() {
    for (const turn of this.#turns.values()) if (!isOver(turn.story)) turn.touch();
  }

  #make(/** @type {Story} */ story) {
    const turn = new RunTurn(story, this.chat.given);
    this.#turns.set(story, turn);
    this.chat.element.classList.add("has-turns");
    this.sight.observe(turn.element);
    return turn;
  }

  #add(/** @type {Story} */ story) {
    this.list.append(this.#make(story).element);
  }

  #earlier() {
    const button = h("button.btn.earlier", { type: "button", onclick: () => this.#showEarlier(button) }, `Show ${Math.min(SHOWN_AT_ONCE, this.#older.length)} earlier`);
    return button;
  }

  #showEarlier(/** @type {Element} */ button) {
    this.follow.hold();
    const before = this.element.scrollHeight;
    const batch = this.#older.splice(-SHOWN_AT_ONCE);
    button.after(...batch.map((story) => this.#make(story).element));
    if (this.#older.length) button.replaceWith(this.#earlier());
    else button.remove();
    this.element.scrollTop += this.element.scrollHeight - before;
  }

  // Tool calls read from messages lack their duration and effect, and messages hold neither the texts that a run ended
  // without nor what the nodes of a workflow did: the events are asked for when the turn is looked at.
  async #seen(/** @type {IntersectionObserverEntry[]} */ entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.sight.unobserve(target);
      const story = [...this.#turns.values()].find((turn) => turn.element === target)?.story;
      if (!story || (story.status === "succeeded" && story.kind !== "workflow" && !story.items.some((item) => item.kind === "tool"))) continue;
      const fresh = await this.chat.given.onDetail(story);
      if (fresh) this.replace(story, fresh);
    }
  }
}

// What stands above an element gets its height once it is near: the place moves for a few frames.
function bring(/** @type {HTMLElement} */ element, frames = 8) {
  element.scrollIntoView({ block: "start" });
  if (frames) requestAnimationFrame(() => bring(element, frames - 1));
}
