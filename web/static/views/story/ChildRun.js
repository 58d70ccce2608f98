// @ts-check
// What a child run did, inside of the run that started it: followed while it is seen.

import { useTicker } from "../../dom/useTicker.js";
import { runFeed } from "../../services/api.js";
import { applyEvent, newStory } from "../../state/story.js";
import { RunTurn } from "./RunTurn.js";

/** A turn of its own, in which a question can be answered as in any other. */
export class ChildRun {
  /** @type {{stop: () => void} | null} */
  #feed = null;
  #tick = () => this.look();
  #end = () => {};

  /** @param {import("../../state/story.js").ChildItem} item @param {import("../../state/story.js").Story} parent that of the run that started it, for the same principal @param {import("./ChildItem.js").Words} words */
  constructor({ child_run_id: runId, agent }, { principal }, words) {
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
      this.#feed = runFeed(this.story.run_id, { cursor: this.story.cursor, onEvent: (/** @type {{data: import("../../state/story.js").RunEvent}} */ { data }) => this.#take(data), onState: (/** @type {import("../../ui/LineState.js").Line} */ state) => this.#note(state) }).start();
    }
  }

  #note(/** @type {import("../../ui/LineState.js").Line} */ { name, error }) {
    if (name !== "refused") return;
    this.story.lost = error;
    this.turn.touch();
  }

  #take(/** @type {import("../../state/story.js").RunEvent} */ event) {
    const items = applyEvent(this.story, event);
    if (items) this.turn.touch(items);
  }
}
