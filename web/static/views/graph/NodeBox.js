// @ts-check
import { fill, h, say } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { markOf, signOf } from "./signs.js";
import { nodeWords, spokenWords } from "./words.js";

/** @typedef {import("../../state/graphGroups.js").WorkflowNode} WorkflowNode */
/** @typedef {import("../../state/graphState.js").NodeState} NodeState */
/** @typedef {import("../../state/graphLayout.js").Place} Place */

/** @type {<E extends HTMLElement>(element: E, place: Place) => E} Returns the element at its place. */
export function placed(element, { x, y, width, height }) {
  for (const [name, value] of Object.entries({ left: x, top: y, width, height })) element.style.setProperty(name, `${value}px`);
  return element;
}

/** One node in the graph: its type's sign, its id, and how it stands, as a shape, a colour and words. */
export class NodeBox {
  #shown = "";
  #words = "";

  constructor(/** @type {WorkflowNode} */ node, /** @type {Place} */ place, /** @type {{onOpen: (id: string) => void}} */ { onOpen }) {
    this.node = node;
    this.place = place;
    this.what = h("small");
    this.stateMark = h("span.node-mark");
    this.bar = h("i.node-bar", { hidden: true });
    this.element = h("button.node", { type: "button", tabindex: "-1", title: visible([node.id, node.name].filter(Boolean).join(": ")), dataset: { node: node.id, type: node.type }, onclick: () => onOpen(node.id) },
      signOf(node.type), h("b", {}, visible(node.label ?? node.name ?? node.id)), this.stateMark, this.what, this.bar);
    this.isPill = node.type === "START" || node.type === "END";
    this.element.classList.toggle("is-pill", this.isPill);
    placed(this.element, place);
  }

  /** Show a state of `graphState`. */
  update(/** @type {NodeState} */ state) {
    const words = this.isPill ? "" : nodeWords(this.node, state);
    say(this.what, words);
    if (this.#words !== words + state.status) this.element.setAttribute("aria-label", spokenWords(this.node, state));
    this.#words = words + state.status;
    this.#showBar(state);
    if (this.#shown === state.status) return;
    this.#shown = state.status;
    this.element.dataset.state = state.status;
    fill(this.stateMark, markOf(state.status));
  }

  /** Show whether this node's panel is open. */
  mark(/** @type {boolean} */ isOpen) {
    if (isOpen) this.element.setAttribute("aria-current", "true");
    else this.element.removeAttribute("aria-current");
  }

  #showBar(/** @type {NodeState} */ { counts, seen = 0, total = seen }) {
    this.bar.hidden = !counts || this.node.type !== "FOR_EACH";
    if (!counts) return;
    const ended = Object.entries(counts).reduce((sum, [status, n]) => sum + (status === "started" || status === "waiting" ? 0 : n), 0);
    this.bar.style.width = `${Math.round((100 * ended) / Math.max(1, total))}%`;
  }
}
