// @ts-check
import { fill, h } from "../../dom/h.js";
import { count } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { getItemSteps, getNodeSteps } from "../../services/api.js";
import { graphState, itemList } from "../../state/graphState.js";
import { NodeOutcome } from "./NodeOutcome.js";
import { markOf, signOf, typeWords } from "./signs.js";
import { countWords, statusWords } from "./words.js";

/** @typedef {import("../../state/graphGroups.js").WorkflowNode} WorkflowNode */
/** @typedef {import("../../state/graphState.js").NodeState} NodeState */
/** @typedef {import("../../state/graphState.js").Item} Item */
/** @typedef {import("./NodeOutcome.js").Step} Step */

const MOST_ITEMS = 200;

/** What a node got, gave and how it went, for each of its attempts; of a FOR_EACH and its body the items, failed ones first. */
export class NodePanel {
  #id = "";
  /** @type {string | null} */
  #scope = null;
  #status = "";
  #shown = "";
  /** @type {Step[] | null} */
  #steps = null;
  /** @type {any} */
  #error = null;

  constructor(/** @type {import("../../state/graphGroups.js").Workflow} */ workflow, /** @type {import("../../state/graphState.js").Story} */ story, /** @type {{onClose: () => void}} */ { onClose }) {
    this.workflow = workflow;
    this.story = story;
    this.onClose = onClose;
    this.element = h("section.node-panel", { hidden: true, onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) });
  }

  /** @type {(id: string, scope?: string | null, status?: string) => void} Shows a node; of one in a body, the item of `scope`, whose `status` its step may know alone. */
  open(id, scope = null, status = "ahead") {
    const isSame = this.#id === id && this.#scope === scope;
    this.element.hidden = false;
    this.element.setAttribute("aria-label", `Node ${id}`);
    this.#id = id;
    this.#scope = scope;
    this.#status = status;
    if (!isSame) this.#steps = this.#error = null;
    this.#shown = "";
    this.update();
  }

  /** Show what has changed, and read the steps again where the node has gone on. */
  update() {
    if (!this.#id) return;
    const node = /** @type {WorkflowNode} */ (this.workflow.nodes.find(({ id }) => id === this.#id));
    const state = graphState(this.workflow, this.story).nodes.get(this.#id);
    const items = this.#scope === null && (state.counts || state.loop) ? itemList(this.workflow, this.story, this.#id) : null;
    const status = this.#scope === null ? state.status : itemList(this.workflow, this.story, this.#id).find(({ scope }) => scope === this.#scope)?.status ?? this.#status;
    const key = JSON.stringify([this.#id, this.#scope, status, state.attempt, state.counts, items?.length]);
    if (key === this.#shown) return;
    this.#shown = key;
    const paint = () => this.#paint(node, { ...state, status }, items);
    paint();
    if (status !== "ahead" && !items) this.#read(key, paint, () => this.#stepsOf());
    else if (state.total && items?.length === 0) this.#read(key, paint, () => getItemSteps(this.story.run_id, this.#id)); // of child runs
  }

  #stepsOf() {
    // An item of a FOR_EACH has a step of its own, named by its scope.
    const isItem = this.#scope?.split("/").at(-2) === this.#id;
    const path = this.#scope === null ? this.#id : isItem ? this.#scope : `${this.#scope}/${this.#id}`;
    return getNodeSteps(this.story.run_id, path);
  }

  /** @type {(key: string, paint: () => void, read: () => Promise<Step[]>) => Promise<void>} */
  async #read(key, paint, read) {
    try {
      const steps = await read();
      if (key !== this.#shown) return;
      this.#steps = steps;
      this.#error = null;
    } catch (error) {
      if (key !== this.#shown) return;
      this.#error = error;
    }
    paint();
  }

  /** @type {(node: WorkflowNode, state: NodeState, items: Item[] | null) => void} */
  #paint(node, state, items) {
    const held = this.element.contains(document.activeElement);
    fill(this.element, this.#header(node, state), this.#scope !== null && this.#back(this.#scope), items ? this.#items(node, items, state) : NodeOutcome(state, this.#steps, this.#error));
    if (held) this.element.querySelector("button")?.focus();
  }

  /** @type {(node: WorkflowNode, state: NodeState) => HTMLElement} */
  #header(node, state) {
    return h("header", { dataset: { state: state.status } }, signOf(node.type), h("h3", {}, visible(node.label ?? node.id)), node.name && h("span", {}, visible(node.name)), h("span.faint", {}, typeWords(node.type)),
      h("span.panel-state", {}, markOf(state.status), statusWords(state.status)), h("button.quiet", { type: "button", onclick: () => this.#close() }, "Close"));
  }

  #back(/** @type {string} */ scope) {
    return h("p.panel-path", {}, h("button.quiet", { type: "button", onclick: () => this.open(this.#id) }, "All items"), h("span.faint", {}, itemWords(scope)));
  }

  /** @type {(node: WorkflowNode, items: Item[], state: NodeState) => any} */
  #items(node, items, state) {
    const rows = items.length ? items : (this.#steps ?? []).map((step) => ({ scope: step.node, status: step.status }));
    if (!rows.length) return h("p.faint", {}, state.total ? "Child runs work on its items; none is at its end." : "No item has come here.");
    const row = (/** @type {Item} */ { scope, status }) => h("li", {}, h("button.panel-item", { type: "button", dataset: { state: status }, onclick: () => this.open(node.id, scope, status) }, markOf(status), h("span", {}, itemWords(scope)), h("span.faint", {}, statusWords(status))));
    return [
      h("p.panel-facts", {}, countWords(state)),
      h("ol.panel-items", { "aria-label": "Items" }, rows.slice(0, MOST_ITEMS).map(row)),
      rows.length > MOST_ITEMS && h("p.faint", {}, `and ${count(rows.length - MOST_ITEMS)} more`),
    ];
  }

  #close() {
    this.#id = "";
    this.element.hidden = true;
    this.onClose();
  }

  #key(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    this.#close();
  }
}

// Of `customers/3/orders/2` its numbers, as the terminal and the templates have them.
function itemWords(/** @type {string} */ scope) {
  return `item ${scope.split("/").filter((_, i) => i % 2).join(" › ")}`;
}
