// @ts-check
import { h } from "../../dom/h.js";
import { paintSoon, prefersStill } from "../../dom/paint.js";
import { MarkdownStream } from "../../markdown/stream.js";
import { LLMResponse, parseStructured } from "./LLMResponse.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";

// More than this at once is a replay: it is shown whole instead of typed out.
const REPLAY = 2400;
// No frame draws more than this, so that the page can be used while a long answer comes in: a list of the shortest items
// that is 64 KiB long takes half a second.
const MOST_A_FRAME = 8192;

/** @typedef {import("../../state/story.js").TextItem} Item */

/** A stretch of the answer: steady while it grows, final when its message came, faded when it was withdrawn. */
export class TextItem {
  #fed = 0;
  #source = "";
  /** @type {MarkdownStream | null} */
  #stream = null;
  /** @type {Item} */
  #item = /** @type {any} */ (null);

  constructor() {
    this.element = h("div.text");
  }

  update(/** @type {Item} */ item) {
    this.#item = item;
    if (item.withdrawn) return this.#withdraw(item);
    // A message may differ from its pieces; then it is shown anew.
    if (!item.text.startsWith(this.#source.slice(0, this.#fed))) this.#startOver();
    this.#source = item.text;
    if (looksStructured(item.text)) return this.#showStructured(item);
    this.#advance();
  }

  // Feeds the stream a part of what is waiting each frame, so that bursts appear at a steady pace.
  #advance = () => {
    if (this.#item.withdrawn) return;
    this.#stream ??= this.#open();
    const next = this.#fed + this.#portion(this.#source.length - this.#fed);
    const end = isHighSurrogate(this.#source, next - 1) ? next + 1 : next;
    this.#stream.append(this.#source.slice(this.#fed, end));
    this.#fed = Math.min(end, this.#source.length);
    const whole = this.#fed >= this.#source.length;
    if (whole && this.#item.closed) this.#stream.finish();
    else this.#stream.paint();
    this.#stream.element.classList.toggle("is-growing", !(whole && this.#item.closed));
    if (!whole) paintSoon(this.#advance);
  };

  #portion(/** @type {number} */ backlog) {
    if (backlog > REPLAY || document.hidden || prefersStill()) return Math.min(backlog, MOST_A_FRAME);
    return Math.max(2, Math.ceil(backlog / (this.#item.closed ? 4 : 7)));
  }

  #open() {
    const stream = new MarkdownStream();
    this.element.replaceChildren(stream.element);
    return stream;
  }

  #startOver() {
    this.#fed = 0;
    this.#stream = null;
  }

  #showStructured(/** @type {Item} */ item) {
    const value = item.closed ? parseStructured(item.text) : undefined;
    if (value !== undefined) {
      this.element.replaceChildren(LLMResponse(value));
      this.structured = true;
    } else if (item.closed) this.#advance();
    else if (!this.element.firstChild) this.element.append(LoadingIndicator("Filling in the answer"));
  }

  // Withdrawn text fades, and can still be unfolded from one line.
  #withdraw(/** @type {Item} */ item) {
    if (this.element.classList.contains("is-withdrawn")) return;
    this.element.classList.add("is-withdrawn");
    this.#stream?.element.classList.remove("is-growing");
    const text = h("p.lost", {}, item.text.slice(0, 4000));
    const note = h("details.lost-note", {}, h("summary", {}, "Withdrawn: an attempt broke off here and was made again"), text);
    const settle = () => this.element.replaceChildren(note);
    if (prefersStill() || document.hidden || !this.element.isConnected) settle();
    else setTimeout(settle, 1400);
  }
}

function looksStructured(/** @type {string} */ text) {
  return /^\s*(```json\s*)?(\{|\[\s*[{[\]"])/.test(text.slice(0, 200));
}

function isHighSurrogate(/** @type {string} */ text, /** @type {number} */ at) {
  const code = text.charCodeAt(at);
  return code >= 0xd800 && code <= 0xdbff;
}
