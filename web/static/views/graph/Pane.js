// @ts-check
// The part of the page that a graph is looked at through: it scrolls, zooms, follows the run, and takes the arrow keys.

import { h } from "../../dom/h.js";
import { prefersStill } from "../../dom/paint.js";
import { neighbourOf } from "./neighbour.js";
import { placed } from "./NodeBox.js";

/** @typedef {import("./NodeBox.js").NodeBox} NodeBox */

/** A chain of two hundred nodes is as high as its pane. */
const SMALLEST = 0.02;
const LARGEST = 2;
const STEP = 1.25;
/** Below it the texts are too small to read: a graph is not made to fit at first that needs less. */
const READABLE = 0.85;
const EDGE = 24;

/** Shows the boxes and edges of a layout; where they do not fit, what is at work is in view until the reader looks elsewhere. */
export class Pane {
  #scale = 0;
  #isFitted = true;
  #isHeld = false;
  #followed = "";
  #inView = "";

  constructor(/** @type {{places: import("../../state/graphLayout.js").Drawing, edges: SVGElement, boxes: Map<string, NodeBox>}} */ { places, edges, boxes }) {
    this.places = places;
    this.boxes = /** @type {import("../../state/graphOrder.js").Whole<string, NodeBox>} */ (boxes);
    this.drawing = h("div.graph-drawing", {}, places.frames.map((place) => placed(h("div.graph-frame", { "aria-hidden": "true" }), place)), edges, [...boxes.values()].map((box) => box.element));
    this.drawing.style.width = `${places.width}px`;
    this.drawing.style.height = `${places.height}px`;
    this.plane = h("div.graph-plane", { role: "group", "aria-label": `${places.nodes.length} nodes; arrow keys move between them`, onkeydown: (/** @type {any} */ event) => this.#key(event) }, this.drawing);
    this.element = h("div.graph-pane", { onpointerdown: (/** @type {PointerEvent} */ event) => this.#drag(event), onwheel: (/** @type {WheelEvent} */ event) => this.#wheel(event), ontouchstart: () => { this.#isHeld = true; } }, this.plane);
    this.buttons = [this.#button("−", "Smaller", () => this.#zoom(1 / STEP)), this.#button("+", "Larger", () => this.#zoom(STEP)), this.#button("Fit", "Show the whole graph", () => this.#fit())];
    this.#rove(places.nodes[0]?.id);
    this.drawing.addEventListener("focusin", (/** @type {any} */ { target }) => target.dataset.node && this.#rove(target.dataset.node));
    new ResizeObserver(() => this.#isFitted && this.start()).observe(this.element);
  }

  /** Have the last of these nodes in view, unless the reader has moved the graph. */
  follow(/** @type {string[]} */ ids) {
    const id = ids.at(-1);
    if (id === undefined || id === this.#followed) return;
    const isFirst = !this.#followed;
    this.#followed = id;
    if (!this.#isHeld) this.reveal(id, isFirst);
  }

  /** Have a node in view. */
  reveal(/** @type {string} */ id, isAtOnce = false) {
    this.#inView = id;
    if (!this.#scale) return; // it is in view from the start
    const { x, y, width, height } = this.boxes.get(id).place;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    const near = (/** @type {number[]} */ ...[start, size, from, length]) => {
      const [first, last] = [start * this.#scale - EDGE, (start + size) * this.#scale + EDGE];
      return first >= from && last <= from + length ? from : (first + last - length) / 2;
    };
    const left = near(x, width, scrollLeft, clientWidth);
    const top = near(y, height, scrollTop, clientHeight);
    this.element.scrollTo({ left, top, behavior: isAtOnce || prefersStill() ? "instant" : "smooth" });
  }

  /** Take the width that there is, as far as that can be read. */
  start() {
    const { clientWidth } = this.element;
    if (!clientWidth) return;
    this.#setScale(Math.max(READABLE, Math.min(1, clientWidth / this.places.width)));
    this.#isFitted = true;
    const id = this.#inView || this.places.nodes[0]?.id;
    if (id) this.reveal(id, true);
  }

  #fit() {
    const { clientWidth, clientHeight } = this.element;
    this.#setScale(Math.min(1, clientWidth / this.places.width, clientHeight / this.places.height));
    this.#isHeld = true;
  }

  // What is in the middle stays there, or what the pointer is at.
  #zoom(/** @type {number} */ factor, at = { x: this.element.clientWidth / 2, y: this.element.clientHeight / 2 }) {
    const { element } = this;
    const before = this.#scale;
    const [x, y] = [(element.scrollLeft + at.x) / before, (element.scrollTop + at.y) / before];
    this.#setScale(before * factor);
    element.scrollTo({ left: x * this.#scale - at.x, top: y * this.#scale - at.y, behavior: "instant" });
    this.#isHeld = true;
  }

  #setScale(/** @type {number} */ scale) {
    this.#isFitted = false;
    this.#scale = Math.max(SMALLEST, Math.min(LARGEST, scale));
    this.plane.style.width = `${this.places.width * this.#scale}px`;
    this.plane.style.height = `${this.places.height * this.#scale}px`;
    this.drawing.style.transform = `scale(${this.#scale})`;
  }

  #wheel(/** @type {WheelEvent} */ event) {
    this.#isHeld = true;
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    this.#zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1, { x: event.clientX - box.left, y: event.clientY - box.top });
  }

  // A mouse drags the ground; fingers scroll by themselves.
  #drag(/** @type {PointerEvent} */ event) {
    if (event.pointerType !== "mouse" || event.button || /** @type {Element} */ (event.target).closest("button")) return;
    this.#isHeld = true;
    const { element } = this;
    const [left, top] = [element.scrollLeft + event.clientX, element.scrollTop + event.clientY];
    element.setPointerCapture(event.pointerId);
    element.classList.add("is-dragged");
    element.onpointermove = (/** @type {PointerEvent} */ { clientX, clientY }) => element.scrollTo({ left: left - clientX, top: top - clientY, behavior: "instant" });
    element.onpointerup = element.onpointercancel = () => {
      element.onpointermove = element.onpointerup = element.onpointercancel = null;
      element.classList.remove("is-dragged");
    };
  }

  // --- keys

  #key(/** @type {KeyboardEvent & {target: HTMLElement}} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { "+": () => this.#zoom(STEP), "-": () => this.#zoom(1 / STEP), 0: () => this.#fit() }[event.key];
    const next = neighbourOf(this.places, event.target.dataset.node, event.key);
    if (act || next) event.preventDefault();
    if (act) return act();
    if (!next) return;
    this.#isHeld = true;
    this.boxes.get(next).element.focus({ preventScroll: true });
    this.reveal(next);
  }

  // One node takes part in the order of Tab.
  #rove(/** @type {string} */ id) {
    for (const [each, box] of this.boxes) box.element.tabIndex = each === id ? 0 : -1;
  }

  /** @type {(text: string, title: string, onclick: () => void) => HTMLElement} */
  #button(text, title, onclick) {
    return h("button.graph-button", { type: "button", title, "aria-label": title, onclick }, text);
  }
}
