// @ts-check
// What stands below the items of a run: what it waits for, or how it ended.

import { fill, h } from "../../dom/h.js";
import { fleetWords, isStarting } from "../../state/fleet.js";
import { isOpen, isOver } from "../../state/story.js";
import { ownerOf } from "../../state/me.js";
import { stateWords, waitWords } from "../../state/words.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { ErrorNotice, Notice } from "../../ui/Notice.js";
import { LLMResponse } from "./LLMResponse.js";
import { QueuedActions } from "./QueuedActions.js";
import { RunLinks, TurnEnd } from "./TurnEnd.js";

/** @typedef {import("../../state/story.js").Story} Story */
/** @typedef {import("./RunTurn.js").Fleet} Fleet */

// A worker needs ten seconds or so to warm up; a run queued for longer with none alive needs a person.
const LATE_MS = 3000;
const NO_WORKER_MS = 20_000;

/** The foot of a turn; it is made again only when what it says has changed. */
export class TurnFoot {
  #key = "";
  /** @type {QueuedActions | null} */
  #queued = null;

  constructor(/** @type {import("./RunTurn.js").RunTurn} */ turn) {
    this.turn = turn;
    this.element = h("div.foot");
  }

  /** Show what the story says by now. */
  show() {
    const { story, given } = this.turn;
    const key = footKey(story, given.fleet());
    if (this.#key === key) return;
    this.#key = key;
    fill(this.element, this.#body(story), RunLinks(story));
  }

  #body(/** @type {Story} */ story) {
    const { again, given } = this.turn;
    if (story.unsent) return this.#unsent(story.unsent);
    if (story.lost) return ErrorNotice(story.lost);
    if (story.sending) return LoadingIndicator("Sending");
    if (isOver(story)) return [this.#output(story), TurnEnd(story, again, given.act)];
    if (story.stopping) return LoadingIndicator("Stopping");
    if (story.status === "queued") return [queued(story, given.fleet()), this.#queuedActions(story)];
    if (story.items.some(isOpen)) return null;
    if (story.status === "waiting") return waiting(story);
    if (this.turn.isWorkflow) return null; // the graph shows what is at work
    return isSilent(story) ? LoadingIndicator(story.items.length ? "Working" : "Waiting for the model") : null;
  }

  // Made once, so that no typing is lost. A run that has begun before is no message that waits.
  #queuedActions(/** @type {Story} */ story) {
    const { act, isBehind } = this.turn.given;
    if (!act || story.startedAt || story.cursor > 1 || ownerOf(story.principal) !== "you") return null;
    this.#queued ??= new QueuedActions(story, { act, isBehind: () => isBehind(story) });
    this.#queued.update();
    return this.#queued.element;
  }

  #unsent(/** @type {import("../../state/story.js").Failure} */ error) {
    const { story, again, given: { onEdit } } = this.turn;
    return ErrorNotice(error, { title: "Not sent", actions: again && onEdit ? [["Send again", again], ["Edit", () => onEdit(story)]] : [] });
  }

  // A structured answer that no message showed, without the texts that stand above it.
  #output(/** @type {Story} */ story) {
    const { output } = story.end ?? {};
    if (output === null || typeof output !== "object" || this.turn.items.hasStructured()) return null;
    const fields = Object.entries(output).filter(([, value]) => !story.items.some((item) => item.kind === "text" && item.text === value));
    return fields.length > 0 && LLMResponse(Array.isArray(output) ? output : Object.fromEntries(fields));
  }
}

/** @type {(story: Story, fleet: Fleet) => string} */
function footKey(story, fleet) {
  const late = story.status === "queued" && fleet.alive === 0 && [fleetWords(fleet), isOlder(story, LATE_MS), isOlder(story, NO_WORKER_MS)];
  return JSON.stringify([story.run_id, story.kind, story.status, story.reason, story.detail, story.end, story.sending, story.stopping, Boolean(story.unsent), Boolean(story.lost), isSilent(story), story.items.length === 0, story.items.filter(isOpen).length, late]);
}

// Nothing grows and nothing runs: the model is being waited for.
function isSilent(/** @type {Story} */ story) {
  const last = story.items.at(-1);
  if (!last || last.withdrawn) return true;
  if (last.kind === "tool") return Boolean(last.outcome);
  return last.kind === "error" || Boolean(last.closed);
}

/** @type {(story: Story, fleet: Fleet) => HTMLElement} */
function queued(story, fleet) {
  if (isStarting(fleet)) return LoadingIndicator(`Queued: ${fleetWords(fleet)}`);
  if (fleet.alive === 0 && isOlder(story, NO_WORKER_MS)) {
    return Notice({ tone: "wait", title: "Queued, and no worker is alive", text: "The run is safe and starts as soon as there is one: `./callboard worker`, or `./callboard up` for everything." });
  }
  if (fleet.alive === 0 && isOlder(story, LATE_MS)) return LoadingIndicator("Queued: no worker is alive yet");
  if (story.reason === "task") return LoadingIndicator("Its task has ended; a worker continues it in a moment");
  if (story.reason === "answered") return LoadingIndicator("Answered; a worker continues it in a moment");
  return LoadingIndicator(story.reason ? `Queued: ${story.detail ?? story.reason}` : "Queued");
}

function waiting(/** @type {Story} */ story) {
  const words = stateWords(story.status, story.reason);
  const text = waitWords(story);
  return text ? Notice({ tone: "wait", title: words[0].toUpperCase() + words.slice(1), text }) : LoadingIndicator(words);
}

/** @type {(story: Story, ms: number) => boolean} */
function isOlder(story, ms) {
  return Date.now() - Date.parse(story.createdAt ?? "0") > ms;
}
