// @ts-check
// The runs as cards in lanes, for a wall screen.

import { count } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { each, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { RunCard } from "../../components/RunCard.js";
import { addressOf } from "../../router.js";
import { LANES } from "../../state/board.js";
import { GROUPS } from "./groups.js";

/** @typedef {{lanes: () => Record<string, any[]>, total: (lane: string) => number | undefined, nameOf: (id: string, name?: string) => string, wordsOf: (run: any) => {words: string, left: string}, clock: import("../../dom/live.js").Signal<number>}} Given */

const MOST = 40;
const TITLES = /** @type {Record<string, string>} */ ({ waiting: "Queued and waiting" });

/** Lanes of what `lanes()` has; `total(lane)` is how many runs there are, shown or not. */
export class Lanes {
  constructor(/** @type {Given} */ given) {
    this.given = given;
    this.element = h("div.lanes", {}, LANES.map((name) => this.#lane(name)));
  }

  /** Move the focus to the next (1) or previous (-1) card. */
  step(/** @type {number} */ by) {
    const cards = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll("a.run")]);
    cards[Math.min(cards.length - 1, Math.max(0, cards.indexOf(/** @type {any} */ (document.activeElement)) + by))]?.focus();
  }

  #lane(/** @type {string} */ name) {
    const { title, query } = GROUPS[name], { lanes, total } = this.given;
    const [number, cards, more] = [h("span.total"), h("div.cards"), h("a.more", { href: addressOf("/board", {}, name === "waiting" ? { status: "open" } : query) })];
    const element = h("section.lane", { dataset: { lane: name }, "aria-label": TITLES[name] ?? title }, h("h2", {}, h("span", {}, TITLES[name] ?? title), number), cards, more);
    each(cards, () => lanes()[name].slice(0, MOST), (run) => run.run_id, (run) => this.#card(run));
    watch(() => {
      const runs = lanes()[name].length, all = total(name);
      element.hidden = !runs;
      say(number, all === undefined ? (name === "ended" ? "latest" : count(runs)) : count(all));
      say(more, (all ?? runs) > MOST && query ? `and ${count((all ?? runs) - MOST)} more` : "");
    });
    return element;
  }

  #card(/** @type {import("../../dom/live.js").Signal<any>} */ run) {
    const { nameOf, wordsOf, clock } = this.given, card = new RunCard(nameOf);
    watch(() => {
      card.update(run.value);
      card.element.href = addressOf("/run/:runId", { runId: run.value.run_id });
    });
    watch(() => {
      clock.value;
      card.tick();
      const { words, left } = wordsOf(run.value);
      say(card.why, [visible(words), left].filter(Boolean).join(" · "));
      card.why.hidden = !card.why.textContent;
    });
    return card.element;
  }
}
