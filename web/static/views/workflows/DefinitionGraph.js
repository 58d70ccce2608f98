// @ts-check
// The graph of a workflow without a run: its nodes and edges, and what its file says of the node that is chosen.

import { plural } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { Edges } from "../graph/Edges.js";
import { layout } from "../../state/graphLayout.js";
import { NodeBox } from "../graph/NodeBox.js";
import { Pane } from "../graph/Pane.js";
import { signOf, typeWords } from "../graph/signs.js";

const AHEAD = { status: "ahead" };
const ON_ERROR = /** @type {Record<string, string>} */ ({ fail: "the run fails", continue: "the run continues", branch: "its edges with “error” are followed" });

/** Draws the workflow; the panel beside it shows a node. */
export class DefinitionGraph {
  /** @param {{nodes: any[], edges: any[]}} workflow */
  constructor(workflow) {
    this.workflow = workflow;
    addStyles("/static/style/graph.css");
    const places = layout(workflow);
    this.boxes = new Map(places.nodes.map((/** @type {any} */ place) => [place.id, this.#box(place)]));
    this.panel = h("section.node-panel", { hidden: true, onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && this.#close() });
    this.pane = new Pane({ places, edges: new Edges(places).element, boxes: this.boxes });
    this.opened = "";
    this.element = h("section.graph", { "aria-label": "Workflow" }, h("div.graph-figure", {}, h("div.graph-bar", {}, h("p.graph-summary", {}, `${plural(workflow.nodes.length, "node")}, ${plural(workflow.edges.length, "edge")}`), h("div.graph-buttons", {}, this.pane.buttons)), h("div.graph-body", {}, this.pane.element, this.panel)));
  }

  /** @type {(place: any) => NodeBox} */
  #box(place) {
    const node = this.workflow.nodes.find(({ id }) => id === place.id);
    const box = new NodeBox(node, place, { onOpen: (/** @type {string} */ id) => this.#open(id) });
    box.update(AHEAD);
    box.element.removeAttribute("aria-label"); // it speaks of a run; the texts in the box say what it is
    return box;
  }

  /** Show how many open runs are at each node. */
  count(/** @type {Map<string, number>} */ runs) {
    for (const [id, { element }] of this.boxes) {
      const number = runs.get(id) ?? 0, words = number ? plural(number, "run") : "";
      let badge = /** @type {HTMLElement | null} */ (element.querySelector(".node-runs"));
      if (!badge && number) element.append((badge = h("span.node-runs")));
      if (badge) say(badge, words);
      if (badge) badge.hidden = !number;
    }
  }

  #open(/** @type {string} */ id) {
    this.opened = id;
    for (const [each, box] of this.boxes) box.mark(each === id);
    const node = this.workflow.nodes.find((each) => each.id === id);
    const facts = /** @type {[string, any][]} */ ([["If it fails", ON_ERROR[node.on_error]], ["Tried again", node.retry !== undefined && plural(node.retry, "time")], ["Time limit", node.timeout_s !== undefined && `${node.timeout_s} s`]]).filter(([, text]) => text);
    this.panel.setAttribute("aria-label", `Node ${id}`);
    this.panel.hidden = false;
    fill(this.panel, h("header", {}, signOf(node.type), h("h3", {}, visible(node.id)), node.name && h("span", {}, visible(node.name)), h("span.faint", {}, typeWords(node.type)), h("button.quiet", { type: "button", onclick: () => this.#close() }, "Close")),
      facts.length > 0 && h("p.panel-facts", {}, facts.map(([title, text]) => `${title}: ${text}`).join(" · ")),
      [["What it does", node.config], ["What undoes it", node.compensate]].map(([title, value]) => value && h("section", {}, h("h4.caps", {}, title), h("pre", { tabindex: "0" }, visible(asJson(value))))),
      !node.config && !node.compensate && h("p.faint", {}, "Its file says no more of it, but for prompts, which are not shown here."));
    this.pane.reveal(id);
  }

  #close() {
    const box = this.boxes.get(this.opened);
    this.panel.hidden = true;
    this.opened = "";
    box?.mark(false);
    box?.element.focus();
  }
}
