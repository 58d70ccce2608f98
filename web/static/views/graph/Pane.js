// The part of the page that a graph is looked at through: it scrolls, zooms, follows the run, and takes the arrow keys.

import { h } from "../../dom/h.js";
import { prefersStill } from "../../dom/paint.js";
import { neighbourOf } from "./neighbour.js";

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

  constructor({ places, edges, boxes }) {
    Object.assign(this, { places, boxes });
    const frames = places.frames.map(frameElement);
    this.drawing = h("div.graph-drawing", {}, frames, edges, [...boxes.values()].map((box) => box.element));
    this.drawing.style.width = `${places.width}px`;
    this.drawing.style.height = `${places.height}px`;
    this.plane = h("div.graph-plane", { role: "group", "aria-label": `${places.nodes.length} nodes; arrow keys move between them`, onkeydown: (event) => this.#key(event) }, this.drawing);
    this.element = h("div.graph-pane", { onpointerdown: (event) => this.#drag(event), onwheel: (event) => this.#wheel(event), ontouchstart: () => { this.#isHeld = true; } }, this.plane);
    this.buttons = [this.#button("−", "Smaller", () => this.#zoom(1 / STEP)), this.#button("+", "Larger", () => this.#zoom(STEP)), this.#button("Fit", "Show the whole graph", () => this.#fit())];
    this.#rove(places.nodes[0]?.id);
    this.drawing.addEventListener("focusin", (event) => event.target.dataset.node && this.#rove(event.target.dataset.node));
    new ResizeObserver(() => this.#isFitted && this.start()).observe(this.element);
  }

  /** Have the last of these nodes in view, unless the reader has moved the graph. */
  follow(ids) {
    const id = ids.at(-1);
    if (id === undefined || id === this.#followed) return;
    const isFirst = !this.#followed;
    this.#followed = id;
    if (!this.#isHeld) this.reveal(id, isFirst);
  }

  /** Have a node in view. */
  reveal(id, isAtOnce = false) {
    this.#inView = id;
    if (!this.#scale) return; // it is in view from the start
    const { x, y, width, height } = this.boxes.get(id).place;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    const near = (start, size, from, length) => {
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
  #zoom(factor, at = { x: this.element.clientWidth / 2, y: this.element.clientHeight / 2 }) {
    const { element } = this;
    const before = this.#scale;
    const [x, y] = [(element.scrollLeft + at.x) / before, (element.scrollTop + at.y) / before];
    this.#setScale(before * factor);
    element.scrollTo({ left: x * this.#scale - at.x, top: y * this.#scale - at.y, behavior: "instant" });
    this.#isHeld = true;
  }

  #setScale(scale) {
    this.#isFitted = false;
    this.#scale = Math.max(SMALLEST, Math.min(LARGEST, scale));
    this.plane.style.width = `${this.places.width * this.#scale}px`;
    this.plane.style.height = `${this.places.height * this.#scale}px`;
    this.drawing.style.transform = `scale(${this.#scale})`;
  }

  #wheel(event) {
    this.#isHeld = true;
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    this.#zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1, { x: event.clientX - box.left, y: event.clientY - box.top });
  }

  // A mouse drags the ground; fingers scroll by themselves.
  #drag(event) {
    if (event.pointerType !== "mouse" || event.button || event.target.closest("button")) return;
    this.#isHeld = true;
    const { element } = this;
    const [left, top] = [element.scrollLeft + event.clientX, element.scrollTop + event.clientY];
    element.setPointerCapture(event.pointerId);
    element.classList.add("is-dragged");
    element.onpointermove = ({ clientX, clientY }) => element.scrollTo({ left: left - clientX, top: top - clientY, behavior: "instant" });
    element.onpointerup = element.onpointercancel = () => {
      element.onpointermove = element.onpointerup = element.onpointercancel = null;
      element.classList.remove("is-dragged");
    };
  }

  // --- keys

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { "+": () => this.#zoom(STEP), "-": () => this.#zoom(1 / STEP), 0: () => this.#fit() }[event.key];
    const next = neighbourOf(this.places, event.target.dataset.node, event.key);
    if (!act && !next) return;
    event.preventDefault();
    if (act) return act();
    this.#isHeld = true;
    this.boxes.get(next).element.focus({ preventScroll: true });
    this.reveal(next);
  }

  // One node takes part in the order of Tab.
  #rove(id) {
    for (const [each, box] of this.boxes) box.element.tabIndex = each === id ? 0 : -1;
  }

  #button(text, title, onclick) {
    return h("button.graph-button", { type: "button", title, "aria-label": title, onclick }, text);
  }
}

function frameElement({ x, y, width, height }) {
  const element = h("div.graph-frame", { "aria-hidden": "true" });
  for (const [name, value] of Object.entries({ left: x, top: y, width, height })) element.style[name] = `${value}px`;
  return element;
}
