// @ts-check
import { h, icon, say } from "../../dom/h.js";
import { duration } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { MarkdownStream } from "../../markdown/stream.js";

/** @typedef {import("../../state/story.js").ThinkingItem} Item */

/** The model's thinking: one line with its duration; the whole of it unfolds. */
export class ThinkingItem {
  /** @type {Item | null} */
  #item = null;
  /** @type {MarkdownStream | null} */
  #stream = null;
  #fed = 0;

  constructor() {
    this.label = h("span.think-label", {}, "Thinking");
    this.gist = h("span.think-gist");
    this.body = h("div.think-body");
    this.element = h("details.think", { ontoggle: () => this.#unfold() }, h("summary", {}, icon("chevron"), h("span.think-line", {}, this.label, this.gist)), this.body);
  }

  update(/** @type {Item} */ item) {
    this.#item = item;
    this.element.classList.toggle("is-live", !item.closed);
    this.element.classList.toggle("is-withdrawn", Boolean(item.withdrawn));
    say(this.label, labelOf(item));
    say(this.gist, gistOf(item));
    this.#unfold();
  }

  // A closed fold shows no text: it is made only when the fold is open.
  #unfold() {
    if (!this.element.open || !this.#item) return;
    if (this.#stream && this.#item.text.length < this.#fed) this.#stream = null;
    if (!this.#stream) {
      this.#stream = new MarkdownStream();
      this.#fed = 0;
      this.body.replaceChildren(this.#stream.element);
    }
    this.#stream.append(this.#item.text.slice(this.#fed));
    this.#fed = this.#item.text.length;
    this.#stream.paint();
  }
}

function labelOf(/** @type {Item} */ item) {
  if (item.withdrawn) return "Withdrawn thought";
  if (!item.closed) return "Thinking";
  const took = Date.parse(/** @type {string} */ (item.endedAt)) - Date.parse(/** @type {string} */ (item.startedAt));
  return took >= 0 ? `Thought for ${duration(took)}` : "Thought";
}

// While it grows, the newest sentence; afterwards, the first.
function gistOf(/** @type {Item} */ item) {
  const flat = item.text.slice(item.closed ? 0 : -600, item.closed ? 600 : undefined).replace(/\*\*|__|`|^#+ /gm, "").replace(/\s+/g, " ").trim();
  const sentences = flat.match(/.+?[.!?](?=\s|$)|.+$/g) ?? []; // "12.5" and "notes.txt" do not end one
  const chosen = item.closed ? sentences[0] : sentences.at(-1);
  return chosen ? visible(chosen.trim().slice(0, 220)) : "";
}
