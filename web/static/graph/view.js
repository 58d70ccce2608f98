// The graph of a workflow's run: made once from its definition; what the run does then changes what the nodes and edges look like.

import { h, say } from "../dom/h.js";
import { getWorkflow } from "../services/api.js";
import { errorWords } from "../state/words.js";
import { isOver } from "../state/story.js";
import { LoadingIndicator } from "../components/LoadingIndicator.js";
import { Notice } from "../components/Notice.js";
import { Edges, joinStates } from "./Edges.js";
import { layout } from "./layout.js";
import { NodeBox } from "./NodeBox.js";
import { NodePanel } from "./NodePanel.js";
import { Pane } from "./Pane.js";
import { graphState } from "./state.js";
import { summaryWords } from "./words.js";

const STYLE = "/static/style/graph.css";
const REST = 9;
const workflows = new Map();
let style = null;

/** Add the graph's stylesheet, which no other view needs, once. */
function loadStyle() {
  style ??= new Promise((resolve) => {
    const link = h("link", { rel: "stylesheet", href: STYLE, onload: resolve, onerror: resolve });
    document.head.append(link);
  });
  return style;
}

/** Return the workflow of a run, read once: what a digest names does not change. */
function workflowOf({ agent, digest, run_id: runId }) {
  const key = JSON.stringify([agent, digest ?? runId]);
  if (!workflows.has(key)) workflows.set(key, getWorkflow(agent, digest).catch((error) => { workflows.delete(key); throw error; }));
  return workflows.get(key);
}

/** The graph of one run: `update` after each change of its story. */
export class GraphView {
  #boxes = new Map();
  #workflow = null;
  #restUntil = 0;
  #later = 0;

  constructor(story) {
    this.story = story;
    this.element = h("section.graph", { "aria-label": "Workflow" }, LoadingIndicator("Loading the workflow"));
    this.#load();
  }

  /** Show what the story says by now: loops over very many items soon, so that a tenth of the time is spent on it at most. */
  update() {
    const began = performance.now();
    if (!this.#workflow || this.#later) return;
    if (began < this.#restUntil) {
      this.#later = setTimeout(() => { this.#later = 0; this.update(); }, this.#restUntil - began);
      return;
    }
    this.#show();
    const ended = performance.now();
    this.#restUntil = ended + REST * (ended - began);
  }

  #show() {
    const { nodes, edges } = graphState(this.#workflow, this.story);
    for (const [id, box] of this.#boxes) box.update(nodes.get(id), this.story);
    this.edges.show(joinStates(this.#workflow.edges, edges));
    say(this.summary, summaryWords([...nodes.values()], this.story));
    this.panel.update();
    this.pane.follow([...nodes].filter(([, { status }]) => (isOver(this.story) ? status === "failed" : status === "started" || status === "waiting")).map(([id]) => id));
  }

  async #load() {
    try {
      const [workflow] = await Promise.all([workflowOf(this.story), loadStyle()]);
      this.#make(workflow);
      this.update();
    } catch (error) {
      const again = () => {
        this.element.replaceChildren(LoadingIndicator("Loading the workflow"));
        this.#load();
      };
      this.element.replaceChildren(Notice({ title: "The graph could not be loaded", text: errorWords(error), code: error.code, actions: [["Try again", again]] }));
    }
  }

  #make(workflow) {
    const places = layout(workflow);
    this.edges = new Edges(places);
    const types = new Map(workflow.nodes.map((node) => [node.id, node]));
    for (const place of places.nodes) this.#boxes.set(place.id, new NodeBox(types.get(place.id), place, { onOpen: (id) => this.#open(id) }));
    this.panel = new NodePanel(workflow, this.story, { onClose: (id) => this.#close(id) });
    this.summary = h("p.graph-summary");
    this.pane = new Pane({ places, edges: this.edges.element, boxes: this.#boxes, workflow });
    this.element.replaceChildren(h("div.graph-figure", {}, h("div.graph-bar", {}, this.summary, this.pane.buttons), h("div.graph-body", {}, this.pane.element, this.panel.element)));
    this.#workflow = workflow;
  }

  #open(id) {
    for (const [each, box] of this.#boxes) box.mark(each === id);
    this.panel.open(id);
    this.pane.reveal(id);
  }

  #close(id) {
    for (const box of this.#boxes.values()) box.mark(false);
    this.#boxes.get(id)?.element.focus();
  }
}
