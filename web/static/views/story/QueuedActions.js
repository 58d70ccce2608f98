// @ts-check
// What a person may do with a message that waits.

import { fill, h } from "../../dom/h.js";

/** The message of a run that waits its turn: send it now, give it to the run before it, edit it, remove it. */
export class QueuedActions {
  /** @type {import("../../ui/AnswerField.js").AnswerField | null} */
  #field = null;
  /** @type {string | undefined} */
  #kind;

  /** @param {import("../../state/story.js").Story} story @param {{act: import("../../state/useTurnActions.js").Act, isBehind: () => boolean}} given `isBehind()` tells whether an open run is before it */
  constructor(story, { act, isBehind }) {
    this.story = story;
    this.act = act;
    this.isBehind = isBehind;
    this.element = h("div.turn-actions");
    this.#paint();
  }

  /** Show what may be done by now: what the message is may come later than it. */
  update() {
    if (this.#kind !== this.story.kind && !this.#field) this.#paint();
  }

  // One call of a tool, as one that a route took, is no text for a model: it is neither edited nor given to another run.
  #paint() {
    const { story } = this, isCall = story.kind === "tool";
    if (this.#field) return fill(this.element, this.#field.element);
    this.#kind = story.kind;
    const button = (/** @type {string} */ words, /** @type {string} */ title, /** @type {() => void} */ onclick) => h("button.quiet", { type: "button", title, onclick }, words);
    fill(this.element, h("div.row", { role: "group", "aria-label": "What waits its turn" },
      this.isBehind() && button("Send now", "Stop the run before it; this message is next", () => this.act("now", story)),
      this.isBehind() && !isCall && button("Steer", "Give this text to the run before it, between two of its steps", () => this.act("steer", story)),
      !isCall && button("Edit", "Change the text; the message keeps its place", () => this.#edit()),
      button("Remove", "Take the message out; no model gets it", () => this.act("remove", story))));
    return this.element;
  }

  async #edit() {
    const { AnswerField } = await import("../../ui/AnswerField.js");
    const close = () => { this.#field = null; this.#paint(); };
    this.#field = new AnswerField({ label: "Text", confirm: "Save", isText: true, onConfirm: () => this.#save(close), onBack: close });
    this.#field.area.value = this.story.input;
    this.#paint();
    this.#field.focus();
  }

  // What could not be saved stays in the field.
  async #save(/** @type {() => void} */ close) {
    const { value } = /** @type {import("../../ui/AnswerField.js").AnswerField} */ (this.#field);
    if (value && await this.act("edit", this.story, value)) close();
  }
}
