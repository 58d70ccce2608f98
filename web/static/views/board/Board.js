// @ts-check
import { threadKey } from "../../state/me.js";
import { fill, h, say } from "../../dom/h.js";
import { paintSoon } from "../../dom/paint.js";
import { count } from "../../dom/format.js";
import { LANES } from "../../state/board.js";
import { LineState } from "../../ui/LineState.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { RunCard } from "./RunCard.js";

/** @typedef {import("../../state/board.js").Run} Run */
/** @typedef {import("../../state/useBoard.js").Line} Line */
/** @typedef {{element: HTMLElement, total: HTMLElement, cards: HTMLElement, more: HTMLElement}} Lane */
/** @typedef {{lanes: () => import("../../state/board.js").Lanes, size: number, open: number, total: (lane: string) => number | undefined}} Shown What a board has to say of its runs. */

/** @type {Record<string, string>} */
const TITLES = { questions: "Need a person", running: "Running", waiting: "Waiting", failed: "Failed in 24 hours", ended: "Ended" };
/** @type {Record<string, string>} What the rest of a lane is listed with. */
const STATUS = { questions: "waiting", running: "running", waiting: "open", failed: "failed", ended: "succeeded" };
/** @type {Record<string, number>} */
const MOST = { questions: 40, running: 20, waiting: 20, failed: 20, ended: 40 };

/** Return what is said where there are no runs: how to start one. */
export function noRuns() {
  return [h("p", {}, "No runs yet."), h("p.faint", {}, "Ask an agent something, or start one from a terminal:"), h("pre", {}, "./callboard run assistant \"What is 17 * 23?\"")];
}

/** The call board: every run as a card, in lanes by state. */
export class Board {
  /** @type {Map<string | undefined, RunCard>} */
  #cards = new Map();
  /** @type {Record<string, Lane>} */
  #lanes = {};
  /** @type {string | undefined} The run whose card shows its liveliness. */
  #rates;
  /** @type {string | null | undefined} */
  #marked;
  /** @type {Line} */
  #state = { name: "connecting" };

  /** @param {{board: () => Shown, onRetry?: () => void} & import("./RunCard.js").Given} given how to read the board, and what its cards need */
  constructor({ board, onRetry, ...given }) {
    this.board = board;
    this.given = given;
    this.line = new LineState({ onRetry });
    this.lanes = h("div.lanes");
    this.empty = h("div.board-empty", {}, LoadingIndicator("Reading the board"));
    const [questions, running, waiting, failed, ended] = LANES.map((name) => this.#lane(name));
    this.lanes.append(questions, running, waiting, h("div.lane-pair", {}, failed, ended));
    this.element = h("aside.board", { id: "board", "aria-label": "The board" }, h("header.board-head", {}, h("h2", {}, "The board"), this.line.element), this.empty, this.lanes);
    this.lanes.hidden = true;
  }

  /** Draw what the board state holds, with the next frame. */
  update() {
    paintSoon(this.#paint);
  }

  showLine(/** @type {Line} */ state) {
    this.#state = state;
    this.line.show(state, `${count(this.board().open)} open`);
  }

  tick() {
    for (const card of this.#cards.values()) if (card.run.status === "running" || !card.run.ended_at) card.tick();
  }

  /** @type {(runId: string | undefined, counts: number[]) => void} Shows the liveliness of the run being watched. */
  drawRate(runId, counts) {
    if (this.#rates && this.#rates !== runId) this.#cards.get(this.#rates)?.drawRate([]);
    this.#rates = runId;
    this.#cards.get(runId)?.drawRate(counts);
  }

  /** Mark the cards of the thread on screen. */
  mark(/** @type {string | null | undefined} */ threadId) {
    this.#marked = threadId;
    for (const card of this.#cards.values()) card.element.classList.toggle("is-here", threadKey(card.run.thread_id, card.run.principal) === threadId);
  }

  /** Move the focus to the next (1) or previous (-1) card. */
  step(/** @type {number} */ by) {
    const /** @type {(Element | null)[]} */ cards = [...this.lanes.querySelectorAll("a.run")];
    const next = /** @type {HTMLElement | undefined} */ (cards[Math.min(cards.length - 1, Math.max(0, cards.indexOf(document.activeElement) + by))]);
    next?.focus();
  }

  #lane(/** @type {string} */ name) {
    const title = TITLES[name];
    const total = h("span.total");
    const cards = h("div.cards");
    const more = h("p.more", { hidden: true });
    const element = h("section.lane", { dataset: { lane: name }, "aria-label": title }, h("h3.caps", {}, h("span", {}, title), total), cards, more);
    this.#lanes[name] = { element, total, cards, more };
    return element;
  }

  #paint = () => {
    const lanes = this.board().lanes();
    const some = this.board().size > 0;
    this.lanes.hidden = !some;
    this.empty.hidden = some;
    if (!some) fill(this.empty, noRuns());
    const /** @type {Set<string | undefined>} */ kept = new Set();
    for (const name of LANES) this.#fillLane(name, lanes[name], kept);
    for (const [id, { element }] of this.#cards) if (!kept.has(id)) this.#cards.delete(id), element.remove();
    this.mark(this.#marked);
    this.showLine(this.#state);
  };

  /** @type {(name: string, runs: Run[], kept: Set<string | undefined>) => void} */
  #fillLane(name, runs, kept) {
    const { element, total, cards, more } = this.#lanes[name];
    const number = this.board().total(name) ?? runs.length;
    say(total, name === "ended" ? "latest" : count(number));
    // Without questions and failures their headings would be noise.
    element.hidden = !runs.length && (name === "questions" || name === "failed");
    const shown = runs.slice(0, MOST[name]);
    let place = cards.firstElementChild;
    for (const run of shown) {
      kept.add(run.run_id);
      const { element } = this.#cardOf(run);
      if (element === place) place = element.nextElementSibling;
      else cards.insertBefore(element, place);
    }
    more.hidden = number <= shown.length || name === "ended";
    const way = this.given.hrefOf ? "in the table" : `./callboard runs --status ${STATUS[name]}`;
    say(more, `and ${count(number - shown.length)} more: ${way}`);
  }

  #cardOf(/** @type {Run} */ run) {
    let card = this.#cards.get(run.run_id);
    if (!card) this.#cards.set(run.run_id, (card = new RunCard(run, this.given)));
    card.update(run);
    return card;
  }
}
