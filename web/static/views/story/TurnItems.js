// The items of a run in the conversation, each shown by the view of its kind.

import { h } from "../../dom/h.js";
import { isOpen } from "../../state/story.js";
import { ChildItem } from "./ChildItem.js";
import { ErrorItem } from "./ErrorItem.js";
import { PassingItem } from "./PassingItem.js";
import { TextItem } from "./TextItem.js";
import { ThinkingItem } from "./ThinkingItem.js";
import { ToolCard } from "./ToolCard.js";

const VIEWS = { text: TextItem, thinking: ThinkingItem, error: ErrorItem, child: ChildItem, control: PassingItem, handover: PassingItem, history: PassingItem, tool: ToolCard };
const LOAD_AGAIN_MS = 2000;
// What is called for an item of a FOR_EACH, thousands of times perhaps, stands in the panels of the graph.
const OF_ITEM = /^[A-Za-z_]\w*\/\d+\//;

/** Load what is not part of the first load, again after a failure until it is here. */
export function untilLoaded(load) {
  return load().catch(() => new Promise((resolve) => setTimeout(resolve, LOAD_AGAIN_MS)).then(() => untilLoaded(load)));
}

// The views of questions are not part of the first load. A question brings the line above several of them.
let questions = null;

function loadQuestions() {
  questions ??= untilLoaded(() => Promise.all([import("./ConfirmInline.js"), import("./CallBatch.js")])).then(([{ ConfirmInline }, { CallBatch }]) => Object.assign(VIEWS, { approval: ConfirmInline, batch: CallBatch }));
  return questions;
}

/** The list of them; it is painted by its turn, which is asked for that when a view was touched. */
export class TurnItems {
  #views = new Map();
  #dirty;
  #batch = null;

  constructor(turn) {
    this.turn = turn;
    this.#dirty = new Set(turn.story.items);
    this.element = h("div.items");
  }

  /** Paint these items the next time. */
  note(items) {
    for (const item of items) this.#dirty.add(item);
  }

  /** Return the card of the question that waits for a decision, if there is one. */
  openApproval() {
    const item = this.turn.story.items.find(isOpen);
    return item && this.#views.get(item.key);
  }

  /** Return whether an item shows a structured answer. */
  hasStructured() {
    return this.turn.story.items.some((item) => this.#views.get(item.key)?.structured);
  }

  /** Show what was noted. */
  paint() {
    const unloaded = [...this.#dirty].filter(({ kind }) => kind === "approval" && !VIEWS.approval);
    if (unloaded.length) loadQuestions().then(() => this.turn.touch(unloaded));
    for (const item of this.#dirty) if (!unloaded.includes(item) && !isOfItem(item)) this.#viewOf(item).update(item);
    this.#dirty.clear();
    this.#showBatch();
  }

  #viewOf(item) {
    const known = this.#views.get(item.key);
    if (known) return known;
    const { story, again, given: { nameOf, fleet } } = this.turn, touch = () => this.turn.touch();
    const View = VIEWS[item.kind] ?? ErrorItem;
    const view = new View(story, again, { onAnswered: touch, onTouched: touch, nameOf, fleet });
    this.#views.set(item.key, view);
    const following = story.items.slice(story.items.indexOf(item) + 1);
    const next = following.map((other) => this.#views.get(other.key)?.element).find(Boolean);
    this.element.insertBefore(view.element, next ?? null);
    return view;
  }

  // Above the first open question, once each open one has its card.
  #showBatch() {
    const { story } = this.turn, open = story.items.filter((item) => isOpen(item) && this.#views.has(item.key));
    if (!open.length && !this.#batch) return;
    this.#batch ??= new VIEWS.batch(story);
    this.#batch.update(open.map((item) => [item, this.#views.get(item.key)]));
    const first = open.length ? this.#views.get(open[0].key).element : null;
    const line = this.#batch.element;
    if (!first || line.hidden || line.nextElementSibling === first) return;
    const held = line.contains(document.activeElement);
    first.before(line);
    if (held) line.focus();
  }
}

function isOfItem({ kind, call_id: id }) {
  return kind === "tool" && OF_ITEM.test(id);
}
