// @ts-check
// The graph of a workflow's run: made once from its definition; what the run does then changes what the nodes and edges look like.

import { fill, h, say } from "../../dom/h.js";
import { addStyles } from "../../dom/styles.js";
import { getWorkflowOf } from "../../services/api.js";
import { errorWords } from "../../state/words.js";
import { isOver } from "../../state/story.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { graphOfCalls } from "../../state/graphOfCalls.js";
import { Edges, joinStates } from "./Edges.js";
import { layout } from "../../state/graphLayout.js";
import { NodeBox } from "./NodeBox.js";
import { NodePanel } from "./NodePanel.js";
import { Pane } from "./Pane.js";
import { graphState } from "../../state/graphState.js";
import { summaryWords } from "./words.js";

/** @typedef {import("../../state/graphState.js").Story} Story */
/** @typedef {import("../../state/graphGroups.js").Workflow} Workflow */
/** @typedef {import("../../state/graphGroups.js").WorkflowNode} WorkflowNode */
/** @typedef {{workflow: Workflow, boxes: Map<string, NodeBox>, edges: Edges, panel: NodePanel, pane: Pane}} Drawn */

const STYLE = "/static/style/graph.css";
const REST = 9;
/** @type {Map<string, Promise<Workflow>>} */
const workflows = new Map();

/** Return the workflow of a run, read once: a run keeps the definition that it was started with. */
function workflowOf(/** @type {Story} */ story) {
  const key = story.run_id;
  if (!workflows.has(key)) workflows.set(key, getWorkflowOf(story).catch((/** @type {unknown} */ error) => { workflows.delete(key); throw error; }));
  return /** @type {Promise<Workflow>} */ (workflows.get(key));
}

/** The graph of one run: `update` after each change of its story. */
export class GraphView {
  /** @type {Workflow | null} */
  #loaded = null;
  /** @type {Drawn | null} A blueprint is drawn as the calls that it has made, again after each of them. */
  #drawn = null;
  #opened = "";
  #restUntil = 0;
  #later = 0;

  constructor(/** @type {Story} */ story) {
    this.story = story;
    this.summary = h("p.graph-summary");
    this.large = h("button.graph-button", { type: "button", title: "Show the graph alone", onclick: () => this.#enlarge() }, "Enlarge");
    this.figure = h("div.graph-figure");
    this.element = h("section.graph", { "aria-label": "Workflow" });
    this.#load();
  }

  /** Show what the story says by now: loops over very many items soon, so that a tenth of the time is spent on it at most. */
  update() {
    const began = performance.now();
    if (!this.#loaded || this.#later) return;
    if (began < this.#restUntil) {
      this.#later = setTimeout(() => { this.#later = 0; this.update(); }, this.#restUntil - began);
      return;
    }
    this.#show(this.#loaded);
    const ended = performance.now();
    this.#restUntil = ended + REST * (ended - began);
  }

  async #load() {
    this.element.replaceChildren(LoadingIndicator("Loading the workflow"));
    try {
      [this.#loaded] = await Promise.all([workflowOf(this.story), addStyles(STYLE)]);
      this.element.replaceChildren(this.figure);
      this.update();
    } catch (/** @type {any} */ error) {
      this.element.replaceChildren(Notice({ title: "The graph could not be loaded", text: errorWords(error), code: error.code, actions: [["Try again", () => this.#load()]] }));
    }
  }

  #show(/** @type {Workflow} */ loaded) {
    const calls = Object.keys(this.story.nodes ?? {}), count = loaded.nodes.length || calls.length;
    this.figure.hidden = !count;
    if (!count) return;
    if (this.#drawn?.workflow.nodes.length !== count) this.#drawn = this.#draw(loaded.nodes.length ? loaded : graphOfCalls(calls));
    const { workflow, boxes, edges, panel, pane } = this.#drawn;
    const states = graphState(workflow, this.story), nodes = [...states.nodes];
    for (const [id, box] of boxes) box.update(states.nodes.get(id));
    edges.show(joinStates(workflow.edges, states.edges));
    say(this.summary, summaryWords([...states.nodes.values()], this.story));
    panel.update();
    pane.follow(nodes.filter(([, { status }]) => (isOver(this.story) ? status === "failed" : status === "started" || status === "waiting")).map(([id]) => id));
  }

  /** @type {(workflow: Workflow) => Drawn} */
  #draw(workflow) {
    const places = layout(workflow);
    const byId = /** @type {import("../../state/graphOrder.js").Whole<string, WorkflowNode>} */ (new Map(workflow.nodes.map((node) => [node.id, node])));
    const edges = new Edges(places);
    const boxes = new Map(places.nodes.map((place) => [place.id, new NodeBox(byId.get(place.id), place, { onOpen: (id) => this.#open(drawn, id) })]));
    const panel = new NodePanel(workflow, this.story, { onClose: () => this.#close(drawn) });
    const pane = new Pane({ places, edges: edges.element, boxes });
    /** @type {Drawn} */
    const drawn = { workflow, boxes, edges, panel, pane };
    fill(this.figure, h("div.graph-bar", {}, this.summary, h("div.graph-buttons", {}, pane.buttons, this.large)), h("div.graph-body", {}, pane.element, panel.element));
    if (this.#opened) this.#open(drawn, this.#opened);
    return drawn;
  }

  /** @type {(drawn: Drawn, id: string) => void} */
  #open({ boxes, panel, pane }, id) {
    this.#opened = id;
    for (const [each, box] of boxes) box.mark(each === id);
    panel.open(id);
    pane.reveal(id);
  }

  #close(/** @type {Drawn} */ { boxes }) {
    const box = /** @type {NodeBox} */ (boxes.get(this.#opened));
    this.#opened = "";
    box.mark(false);
    box.element.focus();
  }

  // The whole screen for the graph and the panel beside it.
  #enlarge() {
    const open = this.figure.closest("dialog");
    if (open) return open.close();
    const dialog = h("dialog.graph-large", { "aria-label": "Workflow" });
    dialog.addEventListener("close", () => {
      this.element.style.minHeight = "";
      this.element.append(this.figure);
      dialog.remove();
      say(this.large, "Enlarge");
      this.#drawn?.pane.start();
    });
    this.element.style.minHeight = `${this.element.offsetHeight}px`; // what is below keeps its place
    dialog.append(this.figure);
    document.body.append(dialog);
    dialog.showModal();
    say(this.large, "Close");
    this.#drawn?.pane.start();
  }
}
