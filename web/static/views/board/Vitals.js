// @ts-check
import { ago, cost, count, duration } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { getMetrics } from "../../services/fleet.js";
import { resource } from "../../services/resource.js";
import { lasting } from "../../state/inbox.js";
import { LENGTHS, seriesOf, sumOf, usual } from "../../state/metrics.js";
import { Sparkline } from "../../ui/Sparkline.js";
import { FAILED } from "./groups.js";

const REFRESH_MS = 30_000;

/** How the fleet is, in a few numbers; each leads to the runs that it counts, or to the plots of a day. */
export class Vitals {
  /** @param {any} board */
  constructor(board) {
    this.element = h("section.vitals", { "aria-label": "How the fleet is" });
    const runs = (/** @type {Record<string, string>} */ query) => addressOf("/board", {}, query);
    const open = this.#vital("Open now", runs({ status: "open" }));
    const asks = this.#vital("Need a person", runs({ status: "asking" }));
    const failed = this.#vital("Failed in 24 hours", runs(FAILED), Sparkline({ tone: "is-bad" }));
    const counted = [this.#vital("First token, p95", "#/fleet", Sparkline({ kind: "line" })), this.#vital("Tokens per second", "#/fleet", Sparkline({ kind: "line" })), this.#vital("Spent in 24 hours", "#/fleet", Sparkline())];
    const { state } = resource(() => getMetrics("24h"), { everyMs: REFRESH_MS });
    watch(() => {
      board.changes.value;
      const { questions, failed: failures } = board.lanes();
      const parts = [[board.number("running"), "running"], [board.number("queued"), "queued"], [board.number("questions"), "for a person"], [board.number("waiting") - board.number("questions"), "waiting"]];
      open.say(count(board.open), parts.filter(([number]) => number).map(([number, word]) => `${count(number)} ${word}`).join(", ") || "all have ended");
      asks.say(count(board.number("questions")), questions.length ? `the oldest for ${lasting(Date.now() - Date.parse(questions[0].created_at))}` : "");
      asks.element.classList.toggle("is-wait", board.number("questions") > 0);
      failed.say(count(board.number("failed")), failures.length ? `the last ${ago(failures[0].ended_at ?? failures[0].created_at)}` : "");
    });
    watch(() => {
      const { value } = state.value;
      for (const { element } of counted) element.hidden = !value; // a reader who may not see all tenants' sums has none
      if (!value) return;
      const series = seriesOf(value.rows, value.slot_s, LENGTHS["24h"], Date.now());
      failed.draw(series.failed);
      showCounted(counted, series, value.first_token_p95_s);
    });
  }

  /** @type {(name: string, href: string, spark?: ReturnType<typeof Sparkline>) => Vital} */
  #vital(name, href, spark) {
    const [number, note] = [h("b"), h("small")];
    const element = h("a.vital", { href }, h("span.vital-name", {}, name), h("span.vital-number", {}, number, spark?.element), note);
    this.element.append(element);
    return { element, say: (text, more) => (say(number, text), say(note, more)), draw: (values) => spark?.show(values) };
  }
}

/** @typedef {{element: HTMLElement, say: (number: string, note: string) => void, draw: (values: readonly (number | null)[]) => void}} Vital */

/** @type {(vitals: Vital[], series: import("../../state/metrics.js").Series, p95: number | undefined) => void} */
function showCounted([first, tokens, spent], series, p95) {
  const range = usual(series.p95);
  first.say(p95 === undefined ? "–" : seconds(p95), range ? `usually ${[...new Set(range.map(seconds))].join(" to ")} in 24 hours` : "no model was asked in 24 hours");
  first.draw(series.p95);
  // Tokens are counted when a call ends: the last two slots together have the calls of five to ten minutes.
  const [one, now] = series.rate.slice(-2), nowS = Math.max(1, Date.now() / 1000 - series.times[series.times.length - 1]);
  const rate = (one * series.slotS + now * nowS) / (series.slotS + nowS);
  tokens.say(rate < 10 ? String(Number(rate.toPrecision(2))) : count(Math.round(rate)), `in calls that ended within ${Math.round((series.slotS + nowS) / 60)} minutes`);
  tokens.draw(series.rate);
  const hour = series.times.length - 3600 / series.slotS;
  spent.say(cost(sumOf(series, series.cost)), `${cost(sumOf(series, series.cost.map((value, i) => (i >= hour ? value : 0))))} within an hour`);
  spent.draw(series.cost);
}

/** @type {(value: number) => string} */
function seconds(value) {
  return value < 0.1 ? duration(value * 1000) : `${value < 10 ? value.toFixed(2) : Math.round(value)} s`;
}
