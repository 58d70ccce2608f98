// @ts-check
// What a child run did, inside of the run that started it: followed while it is seen.

import { useTicker } from "../../dom/useTicker.js";
import { runFeed } from "../../services/api.js";
import { applyEvent, newStory } from "../../state/story.js";
import { RunTurn } from "./RunTurn.js";

/** A turn of its own, in which a question can be answered as in any other. */
export class ChildRun {
  /** @type {any} */
  #feed = null;
  #tick = () => this.look();
  #end = () => {};

  /** @param {any} item @param {any} parent the story of the run that started it, for the same principal @param {{nameOf: any, fleet: any}} words */
  constructor({ child_run_id: runId, agent }, { principal }, words) {
    /** @type {any} */
    this.story = newStory({ run_id: runId, agent, principal });
    this.turn = new RunTurn(this.story, { ...words, act: null, onAgain: null, onEdit: null, isBehind: () => false });
    this.element = this.turn.element;
  }

  /** Read on from the last event that is shown, or stop where it is folded, in another view or gone. */
  look() {
    const isSeen = this.element.isConnected && this.element.checkVisibility();
    if (!isSeen) {
      this.#feed?.stop();
      this.#feed = null;
      if (!this.element.isConnected) this.#end();
    } else if (!this.#feed) {
      this.#end = /** @type {any} */ (useTicker(this.#tick));
      this.story.lost = null;
      this.#feed = runFeed(this.story.run_id, { cursor: this.story.cursor, onEvent: (/** @type {any} */ { data }) => this.#take(data), onState: (/** @type {any} */ state) => this.#note(state) }).start();
    }
  }

  #note(/** @type {any} */ { name, error }) {
    if (name !== "refused") return;
    this.story.lost = error;
    this.turn.touch();
  }

  #take(/** @type {any} */ event) {
    const items = applyEvent(this.story, event);
    if (items) this.turn.touch(items);
  }
}
