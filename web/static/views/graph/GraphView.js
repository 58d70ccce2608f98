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

const STYLE = "/static/style/graph.css";
const REST = 9;
const workflows = new Map();

/** Return the workflow of a run, read once: a run keeps the definition that it was started with. */
function workflowOf(story) {
  const key = story.run_id;
  if (!workflows.has(key)) workflows.set(key, getWorkflowOf(story).catch((error) => { workflows.delete(key); throw error; }));
  return workflows.get(key);
}

/** The graph of one run: `update` after each change of its story. */
export class GraphView {
  #boxes = new Map();
  // As it is loaded, and as it is drawn: a blueprint is drawn as the calls that it has made.
  #loaded = null;
  #workflow = { nodes: [], edges: [] };
  #opened = null;
  #restUntil = 0;
  #later = 0;

  constructor(story) {
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
    this.#show();
    const ended = performance.now();
    this.#restUntil = ended + REST * (ended - began);
  }

  async #load() {
    this.element.replaceChildren(LoadingIndicator("Loading the workflow"));
    try {
      [this.#loaded] = await Promise.all([workflowOf(this.story), addStyles(STYLE)]);
      this.element.replaceChildren(this.figure);
      this.update();
    } catch (error) {
      this.element.replaceChildren(Notice({ title: "The graph could not be loaded", text: errorWords(error), code: error.code, actions: [["Try again", () => this.#load()]] }));
    }
  }

  #show() {
    const calls = Object.keys(this.story.nodes ?? {});
    const isDrawn = this.#loaded.nodes.length > 0;
    const count = isDrawn ? this.#loaded.nodes.length : calls.length;
    if (this.#workflow.nodes.length !== count) this.#draw(isDrawn ? this.#loaded : graphOfCalls(calls));
    this.figure.hidden = !count;
    if (!count) return;
    const { nodes, edges } = graphState(this.#workflow, this.story);
    for (const [id, box] of this.#boxes) box.update(nodes.get(id));
    this.edges.show(joinStates(this.#workflow.edges, edges));
    say(this.summary, summaryWords([...nodes.values()], this.story));
    this.panel.update();
    this.pane.follow([...nodes].filter(([, { status }]) => (isOver(this.story) ? status === "failed" : status === "started" || status === "waiting")).map(([id]) => id));
  }

  #draw(workflow) {
    this.#workflow = workflow;
    const places = layout(workflow);
    const byId = new Map(workflow.nodes.map((node) => [node.id, node]));
    this.edges = new Edges(places);
    this.#boxes = new Map(places.nodes.map((place) => [place.id, new NodeBox(byId.get(place.id), place, { onOpen: (id) => this.#open(id) })]));
    this.panel = new NodePanel(workflow, this.story, { onClose: () => this.#close() });
    this.pane = new Pane({ places, edges: this.edges.element, boxes: this.#boxes });
    fill(this.figure, h("div.graph-bar", {}, this.summary, h("div.graph-buttons", {}, this.pane.buttons, this.large)), h("div.graph-body", {}, this.pane.element, this.panel.element));
    if (this.#opened) this.#open(this.#opened);
  }

  #open(id) {
    this.#opened = id;
    for (const [each, box] of this.#boxes) box.mark(each === id);
    this.panel.open(id);
    this.pane.reveal(id);
  }

  #close() {
    const box = this.#boxes.get(this.#opened);
    this.#opened = null;
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
      this.pane.start();
    });
    this.element.style.minHeight = `${this.element.offsetHeight}px`; // what is below keeps its place
    dialog.append(this.figure);
    document.body.append(dialog);
    dialog.showModal();
    say(this.large, "Close");
    this.pane.start();
  }
}
