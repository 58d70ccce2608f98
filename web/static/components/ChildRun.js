// @ts-check
// What a child run did, inside of the run that started it: followed while it is unfolded.

import { addressOf } from "../router.js";
import { runFeed } from "../services/api.js";
import { fleetOf } from "../state/fleet.js";
import { applyEvent, newStory } from "../state/story.js";
import { RunTurn } from "./RunTurn.js";

/** A turn of its own, in which a question can be answered as in any other. */
export class ChildRun {
  /** @type {any} */
  #feed = null;

  /** @param {{child_run_id: string, agent: string}} item */
  constructor({ child_run_id: runId, agent }) {
    /** @type {any} */
    this.story = newStory({ run_id: runId, agent });
    const toRun = () => { location.hash = addressOf("/run/:runId", { runId }); };
    this.turn = new RunTurn(this.story, { nameOf: (/** @type {string} */ id, /** @type {string} */ given) => given ?? id, fleet: () => fleetOf(null), isBehind: () => false, act: toRun, onAgain: toRun, onEdit: toRun });
    this.element = this.turn.element;
  }

  /** Read on from the last event that is shown, or stop. */
  follow(/** @type {boolean} */ isOpen) {
    this.#feed?.stop();
    this.#feed = isOpen ? runFeed(this.story.run_id, { cursor: this.story.cursor, onEvent: (/** @type {any} */ { data }) => this.#take(data), onState: (/** @type {any} */ state) => this.#note(state) }).start() : null;
  }

  #note(/** @type {any} */ { name, error }) {
    if (name !== "refused") return;
    this.story.lost = error;
    this.turn.touch();
  }

  #take(/** @type {any} */ event) {
    if (!this.element.isConnected) return this.follow(false);
    const items = applyEvent(this.story, event);
    if (items) this.turn.touch(items);
  }
}
