// @ts-check
// Numbers over time, drawn by uPlot, which is loaded with the first plot; a range of time is chosen with pointer or keys.

import { fill, h, say } from "../dom/h.js";
import { onEnd, signal, watch } from "../dom/live.js";
import { paintSoon } from "../dom/paint.js";
import { addStyles } from "../dom/styles.js";
import { movedRange, slotsBetween } from "../state/brush.js";
import { plotOptions } from "./plotOptions.js";

/**
 * @typedef {import("../state/brush.js").Range} Range
 * @typedef {{label: string, token: string, kind: "bars" | "steps" | "line", dash?: number[], share?: number}} Line `token`: a colour of tokens.css, of which `share` is drawn
 * @typedef {{times: readonly number[], slotS: number, values: readonly (readonly (number | null)[])[], now: string, summary: string}} Shown `now`: the number beside the title
 */

const HEIGHT = 146;

/** @returns {Promise<any>} */
async function library() {
  const [module] = await Promise.all([import("../vendor/uPlot/uPlot.esm.js"), addStyles("/static/vendor/uPlot/uPlot.css")]);
  return module.default;
}

/** A plot of lines that share one scale; bars are drawn over those before them, so sums come first. */
export class Plot {
  #range;
  #chart = /** @type {any} */ (null);
  #uPlot = /** @type {any} */ (null);
  #shown = /** @type {Shown | null} */ (null);
  #isOver = false;

  /** @param {{title: string, lines: Line[], format: (value: number) => string, range?: import("../dom/live.js").Signal<Range | null>, empty?: string}} given */
  constructor({ title, lines, format, range = signal(null), empty = "Nothing was counted in this time." }) {
    this.title = title;
    this.lines = lines;
    this.format = format;
    this.#range = range;
    this.value = h("span.plot-value");
    this.note = h("p.plot-note", {}, empty);
    this.area = h("div.plot-area", { tabindex: "0", role: "group", "aria-label": title });
    const legend = h("span.plot-legend", {}, lines.map(({ label, token, kind, dash }) => h("span", {}, h(`i.key.is-${kind}${dash ? ".is-dashed" : ""}`, { dataset: { token }, "aria-hidden": "true" }), label)));
    this.element = h("figure.plot", {}, h("figcaption", {}, h("b", {}, title), this.value, lines.length > 1 && legend), h("div.plot-frame", {}, this.area, this.note));
    this.area.addEventListener("keydown", this.#pressed);
    const resized = new ResizeObserver(() => paintSoon(this.#resize));
    resized.observe(this.area);
    const schemes = ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"].map((query) => matchMedia(query));
    for (const scheme of schemes) scheme.addEventListener("change", this.#rebuild);
    onEnd(() => {
      this.#isOver = true;
      resized.disconnect();
      for (const scheme of schemes) scheme.removeEventListener("change", this.#rebuild);
      this.#chart?.destroy();
    });
    watch(() => this.#drawRange(range.value));
  }

  /** Draw this in place of what is shown; a number that is null is a gap. */
  show(/** @type {Shown} */ shown) {
    this.#shown = shown;
    say(this.value, shown.now);
    this.note.hidden = shown.values.some((values) => values.some((value) => value));
    this.area.setAttribute("aria-label", `${this.title}: ${shown.summary} Arrow keys choose a time.`);
    if (this.#chart) this.#chart.setData([shown.times, ...shown.values]);
    else this.#load();
    this.#drawRange(this.#range.peek());
  }

  async #load() {
    if (this.#uPlot) return;
    try {
      this.#uPlot = await library();
    } catch {
      this.note.hidden = false;
      say(this.note, "The plot could not be loaded: the server was updated, or does not answer. Load the page again.");
      return;
    }
    this.#rebuild();
  }

  #rebuild = () => {
    const shown = this.#shown;
    if (this.#isOver || !this.#uPlot || !shown || !this.area.clientWidth) return;
    this.#chart?.destroy();
    fill(this.area);
    const times = () => this.#shown ?? shown;
    const options = plotOptions(this.#uPlot, { lines: this.lines, format: this.format, shown: times, style: getComputedStyle(this.area), onSelect: this.#select });
    this.#chart = new this.#uPlot({ ...options, width: this.area.clientWidth, height: HEIGHT }, [shown.times, ...shown.values], this.area);
    this.#drawRange(this.#range.peek());
  };

  #resize = () => {
    if (!this.#chart) return void this.#rebuild(); // it was not laid out yet
    if (this.area.clientWidth) this.#chart.setSize({ width: this.area.clientWidth, height: HEIGHT });
    this.#drawRange(this.#range.peek());
  };

  #select = (/** @type {number} */ from, /** @type {number} */ to) => {
    const { times, slotS } = /** @type {Shown} */ (this.#shown);
    this.#range.value = slotsBetween(from, to, times, slotS);
    this.#drawRange(this.#range.peek()); // in whole slots
  };

  #pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.#shown) return;
    const { times, slotS } = this.#shown;
    const range = movedRange(this.#range.peek(), event.key, event.shiftKey, times, slotS);
    if (range === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.#range.value = range;
  };

  #drawRange(/** @type {Range | null} */ range) {
    const chart = this.#chart;
    if (!chart) return;
    const [left, right] = range ? [chart.valToPos(range.from, "x"), chart.valToPos(range.to, "x")] : [0, 0];
    chart.setSelect({ left, width: right - left, top: 0, height: range ? chart.over.clientHeight : 0 }, false);
  }
}
