// @ts-check
// The items of a run in the conversation, each shown by the view of its kind.

import { h } from "../../dom/h.js";
import { isOpen } from "../../state/story.js";
import { ChildItem } from "./ChildItem.js";
import { ErrorItem } from "./ErrorItem.js";
import { PassingItem } from "./PassingItem.js";
import { TextItem } from "./TextItem.js";
import { ThinkingItem } from "./ThinkingItem.js";
import { ToolCard } from "./ToolCard.js";

/** @typedef {import("../../state/story.js").Item} Item */
/** @typedef {{element: HTMLElement, update: (item: any) => void, structured?: boolean}} ItemView `update` gets items of its kind. */
/** @typedef {{onAnswered: () => void, onTouched: () => void} & import("./ChildItem.js").Words} Given */
/** @typedef {import("./ConfirmInline.js").ConfirmInline} Card */

/** @type {Record<string, new (story: import("../../state/story.js").Story, again: (() => void) | null, given: Given) => ItemView>} The view for each kind of item. */
const VIEWS = { text: TextItem, thinking: ThinkingItem, error: ErrorItem, child: ChildItem, control: PassingItem, handover: PassingItem, history: PassingItem, tool: ToolCard };
const LOAD_AGAIN_MS = 2000;
// What is called for an item of a FOR_EACH, thousands of times perhaps, stands in the panels of the graph.
const OF_ITEM = /^[A-Za-z_]\w*\/\d+\//;

/**
 * Load what is not part of the first load, again after a failure until it is here.
 *
 * @template T
 * @param {() => Promise<T>} load
 * @returns {Promise<T>}
 */
export function untilLoaded(load) {
  return load().catch(() => new Promise((resolve) => setTimeout(resolve, LOAD_AGAIN_MS)).then(() => untilLoaded(load)));
}

// The views of questions are not part of the first load. A question brings the line above several of them.
/** @type {Promise<unknown> | null} */
let questions = null;
/** @type {typeof import("./CallBatch.js").CallBatch} */
let Batch;

function loadQuestions() {
  questions ??= untilLoaded(() => Promise.all([import("./ConfirmInline.js"), import("./CallBatch.js")])).then(([{ ConfirmInline }, { CallBatch }]) => { VIEWS.approval = ConfirmInline; Batch = CallBatch; });
  return questions;
}

/** The list of them; it is painted by its turn, which is asked for that when a view was touched. */
export class TurnItems {
  /** @type {Map<string, ItemView>} */
  #views = new Map();
  /** @type {Set<Item>} */
  #dirty;
  /** @type {import("./CallBatch.js").CallBatch | null} */
  #batch = null;

  constructor(/** @type {import("./RunTurn.js").RunTurn} */ turn) {
    this.turn = turn;
    this.#dirty = new Set(turn.story.items);
    this.element = h("div.items");
  }

  /** Paint these items the next time. */
  note(/** @type {Item[]} */ items) {
    for (const item of items) this.#dirty.add(item);
  }

  /** Return the card of the question that waits for a decision, if there is one. */
  openApproval() {
    const item = this.turn.story.items.find(isOpen);
    return item && /** @type {Card | undefined} */ (this.#views.get(item.key));
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

  #viewOf(/** @type {Item} */ item) {
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
    const { story } = this.turn, open = story.items.filter(isOpen).filter(({ key }) => this.#views.has(key));
    if (!open.length && !this.#batch) return;
    const batch = this.#batch ??= new Batch(story);
    batch.update(open.map((item) => [item, /** @type {Card} */ (this.#views.get(item.key))]));
    const first = open.length && this.#views.get(open[0].key)?.element, line = batch.element;
    if (!first || line.hidden || line.nextElementSibling === first) return;
    const held = line.contains(document.activeElement);
    first.before(line);
    if (held) line.focus();
  }
}

function isOfItem(/** @type {Item} */ item) {
  return item.kind === "tool" && OF_ITEM.test(item.call_id);
}
