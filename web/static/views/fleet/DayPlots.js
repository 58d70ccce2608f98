// @ts-check
// What was counted, as plots with one brush: the time that is chosen on one is chosen on all, and leads to its runs.

import { cost, count, duration, plural } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { withCode } from "../../ui/Notice.js";
import { addressOf } from "../../router.js";
import { highest, LENGTHS, seriesOf, sumOf } from "../../state/metrics.js";
import { Plot } from "../../ui/Plot.js";
import { clock } from "../../ui/plotOptions.js";

/** @typedef {import("../../state/metrics.js").Series} Series */
/** @typedef {import("../../state/brush.js").Range} Range */

const seconds = (/** @type {number} */ value) => (value < 0.1 ? duration(value * 1000) : `${Number(value.toPrecision(2))} s`);
const whole = (/** @type {number} */ value) => (value < 10 ? String(Number(value.toPrecision(2))) : count(Math.round(value)));

export class DayPlots {
  /**
   * @param {import("../../dom/live.js").Signal<string>} length
   * @param {import("../../dom/live.js").Signal<{value: any}>} state
   */
  constructor(length, state) {
    const range = signal(/** @type {Range | null} */ (null));
    const series = signal(/** @type {Series | null} */ (null));
    const plots = plotsOf(range);
    const fed = h("p.part-note");
    const brushed = h("p.brushed", { role: "status" });
    this.element = h("div.day", {}, fed, h("div.plots", {}, plots.map(({ plot }) => plot.element)), brushed);
    watch(() => {
      const { value } = state.value;
      if (!value) return;
      series.value = seriesOf(value.rows, value.slot_s, LENGTHS[length.value], Date.now());
      fed.hidden = value.is_fed;
      fill(fed, withCode(visible(value.detail ?? "")));
    });
    watch(() => { length.value; range.value = null; });
    watch(() => series.value && plots.forEach(({ plot, shownOf }) => plot.show(shownOf(/** @type {Series} */ (series.value)))));
    watch(() => series.value && showBrushed(brushed, series.value, range.value, () => { range.value = null; }));
  }
}

/** @type {(range: import("../../dom/live.js").Signal<Range | null>) => {plot: Plot, shownOf: (series: Series) => import("../../ui/Plot.js").Shown}[]} */
function plotsOf(range) {
  return [
    {
      plot: new Plot({ title: "Runs", range, format: whole, empty: "No run began or ended in this time.", lines: [{ label: "failed", token: "bad", kind: "bars" }, { label: "stopped", token: "edge", kind: "bars" }, { label: "ended well", token: "live", kind: "bars", share: 0.55 }, { label: "began", token: "soft", kind: "steps" }] }),
      shownOf: (series) => {
        const { well, stopped, failed, started } = series;
        const sums = [well.map((n, i) => n + stopped[i] + failed[i]), well.map((n, i) => n + stopped[i]), well, started];
        const words = `${count(sumOf(series, started))} began, ${count(sumOf(series, sums[0]))} ended, ${count(sumOf(series, failed))} failed`;
        return shown(series, sums, words, `${words}, a bar is ${plural(series.slotS / 60, "minute")}.`);
      },
    },
    {
      plot: new Plot({ title: "First token", range, format: seconds, empty: "No model was asked in this time.", lines: [{ label: "median", token: "soft", kind: "line", dash: [4, 3] }, { label: "95th percentile", token: "ink", kind: "line" }] }),
      shownOf: (series) => {
        const [p50, p95] = [highest(series.p50), highest(series.p95)];
        const words = p95 === null ? "" : `median at most ${seconds(p50 ?? 0)}, 95th percentile ${seconds(p95)}`;
        return shown(series, [series.p50, series.p95], words, words ? `The highest median was ${seconds(p50 ?? 0)}, the highest 95th percentile ${seconds(p95 ?? 0)}.` : "");
      },
    },
    {
      plot: new Plot({ title: "Tokens per second", range, format: whole, empty: "No model wrote anything in this time.", lines: [{ label: "written", token: "ink", kind: "line" }] }),
      shownOf: (series) => shown(series, [series.rate], `at most ${whole(highest(series.rate) ?? 0)}`, `At most ${whole(highest(series.rate) ?? 0)} tokens a second were written.`),
    },
    {
      plot: new Plot({ title: "Cost", range, format: cost, empty: "Nothing with a known price was asked in this time.", lines: [{ label: "dollars", token: "soft", kind: "bars", share: 0.5 }] }),
      shownOf: (series) => shown(series, [series.cost], cost(sumOf(series, series.cost)), `${cost(sumOf(series, series.cost))} in all.`),
    },
  ];
}

/** @type {(series: Series, values: readonly (readonly (number | null)[])[], now: string, summary: string) => import("../../ui/Plot.js").Shown} */
function shown({ times, slotS }, values, now, summary) {
  return { times, slotS, values, now, summary };
}

/** @type {(place: HTMLElement, series: Series, range: Range | null, onClear: () => void) => void} */
function showBrushed(place, series, range, onClear) {
  if (!range) return void fill(place, h("span.faint", {}, "Draw over a plot, or move on it with the arrow keys, to see the runs of a time."));
  const [well, stopped, failed] = [series.well, series.stopped, series.failed].map((values) => sumOf(series, values, range));
  const time = { since: isoOf(range.from), until: isoOf(range.to) };
  fill(place,
    h("span", {}, `${clock(range.from)} to ${clock(range.to)}: `, h("b", {}, `${count(failed)} failed`), `, ${plural(well, "run")} ended well, ${count(stopped)} stopped`),
    h("a.quiet", { href: addressOf("/board", {}, time) }, "Runs that began then"),
    failed > 0 && h("a.quiet", { href: addressOf("/board", {}, { ...time, code: "any" }) }, "Runs that failed then"),
    h("button.quiet", { type: "button", onclick: onClear }, "Clear"));
}

/** @type {(seconds: number) => string} */
function isoOf(seconds) {
  return new Date(seconds * 1000).toISOString().replace(".000", "");
}
