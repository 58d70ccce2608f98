// @ts-check
import { count, duration, plural } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { each, signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { usesOf } from "../../state/usage.js";
import { decisionWords, stateWords } from "../../state/words.js";
import { placeOf, rateBars, stretches, timeBy, timelineRows } from "../../state/timeline.js";

const TICKS = 5;
const RATE_COLUMNS = 200;
const SIGNS = /** @type {Record<string, string>} */ ({ done: "succeeded", failed: "failed", unknown: "unknown", started: "running", cancelled: "cancelled", waiting: "waiting" });

/** What the run did, on a scale of time whose idle stretches are folded. */
export class Timeline {
  /** @param {{facts: import("../../state/timeline.js").RunFacts, changes: any, steps: () => any[], clock: any, chosen: any, onChoose: (key: string) => void}} given */
  constructor({ facts, changes, steps, clock, chosen, onChoose }) {
    this.chosen = chosen;
    this.rows = signal(/** @type {any[]} */ ([]));
    const isTrue = signal(false);
    const scale = signal(/** @type {any[]} */ ([]));
    const [sums, axis, list, rate] = [h("div.sums"), h("div.axis", { "aria-hidden": "true" }), h("ol.steps", { "aria-label": "Steps" }), h("div.track-rate", { hidden: true })];
    const fold = h("button.quiet", { type: "button", onclick: () => { isTrue.value = !isTrue.peek(); } });
    watch(() => {
      changes.value;
      const to = facts.to ?? Math.max(clock.value, facts.last);
      this.rows.value = timelineRows(facts, steps());
      scale.value = stretches(this.rows.value, facts.from, to, isTrue.value);
      showSums(sums, timeBy(this.rows.value, facts, to));
      showAxis(axis, scale.value, facts.from, facts.to === null);
      showRate(rate, rateBars(facts.rates, scale.value, RATE_COLUMNS));
      const folded = scale.value.some(({ isFolded }) => isFolded);
      fold.hidden = !folded && !isTrue.value;
      say(fold, isTrue.value ? "Fold the waits" : "True scale");
    });
    each(list, () => this.rows.value, (row) => row.key, (row) => stepRow(row, { scale, facts, clock, chosen, onChoose }));
    this.element = h("section.timeline", { "aria-label": "Timeline" }, sums, h("div.track-table", {}, h("div.track-head", {}, h("span.caps", {}, "Step"), axis), rate, list), h("p.legend", {}, ["first", "think", "write", "tool", "child", "person"].map((kind) => h("span", {}, h(`i.bar.is-${kind}`, { "aria-hidden": "true" }), LEGEND[kind])), fold));
  }

  /** Return the row with a key, if the timeline has it. */
  row(/** @type {string} */ key) {
    return this.rows.value.find((row) => row.key === key);
  }
}

const LEGEND = /** @type {Record<string, string>} */ ({ first: "until the first token", think: "thinking", write: "writing", tool: "tool", child: "child run", person: "a person" });

/** @type {(row: any, given: {scale: any, facts: any, clock: any, chosen: any, onChoose: (key: string) => void}) => HTMLElement} */
function stepRow(row, { scale, facts, clock, chosen, onChoose }) {
  const [name, note, time, track] = [h("span.step-name"), h("span.step-note.clip"), h("span.step-time"), h("span.track", { "aria-hidden": "true" })];
  const { key, kind } = row.peek();
  const isAttempt = kind === "attempt";
  const label = isAttempt ? h("div.step-label", {}, name, note, time) : h("button.step-label", { type: "button", onclick: () => onChoose(key) }, h("span.step-sign"), name, note, time);
  const element = h(`li.step.is-${kind}`, { dataset: { key } }, label, track);
  watch(() => {
    const value = row.value, until = value.to ?? facts.to ?? clock.value;
    say(name, isAttempt ? `Attempt ${value.number}` : kind === "model" ? "Model" : kind === "question" ? visible(value.name) : visible(value.name));
    say(note, noteOf(value));
    say(time, duration(until - value.from) + (value.to === null && !isAttempt ? " so far" : ""));
    const sign = label.querySelector(".step-sign");
    const mark = SIGNS[value.state] ?? (kind === "question" ? (value.to === null ? "waiting" : value.state === "reject" ? "refused" : "succeeded") : value.state);
    if (sign && label.dataset.sign !== mark) fill(sign, icon(mark), h("span.offscreen", {}, stateWords(value.state)));
    label.dataset.sign = mark;
    fill(track, bars(value, until, scale.value));
  });
  if (!isAttempt) watch(() => label.setAttribute("aria-pressed", String(chosen.value === key)));
  return element;
}

/** @type {(value: any) => string} */
function noteOf(value) {
  if (value.kind === "attempt") return value.state && value.state !== "succeeded" ? stateWords("waiting", value.state).replaceAll("_", " ") : "";
  if (value.kind === "question") return value.to === null ? "" : `${decisionWords(value.state)}${value.by ? `, ${visible(value.by)}` : ""}`;
  if (value.kind === "model") return [value.retries?.length && plural(value.retries.length + 1, "try", "tries"), value.usage?.output_tokens && plural(value.usage.output_tokens, "token"), speedWords(value)].filter(Boolean).join(", ");
  return visible(Object.values(value.call?.arguments ?? {}).filter((part) => typeof part !== "object").join(", ").slice(0, 120));
}

/** @type {(value: any) => string} */
function speedWords(value) {
  const speed = usesOf([value])[0]?.speed;
  return speed === undefined ? "" : `${count(Math.round(speed))}/s`;
}

/** @type {(place: HTMLElement, rate: {most: number, bars: {at: number, height: number}[]}) => void} */
function showRate(place, { most, bars: columns }) {
  place.hidden = !columns.length;
  const width = 100 / RATE_COLUMNS;
  const drawn = columns.map(({ at, height }) => {
    const column = mark(h("i"), at, width / 100);
    column.style.height = `${(height * 100).toFixed(1)}%`;
    return column;
  });
  fill(place, h("span.faint", {}, "Text, at most ", h("b", {}, plural(most, "piece")), " a second"), h("div", { "aria-hidden": "true" }, drawn));
}

/** @type {(value: any, until: number, scale: any[]) => any[]} */
function bars(value, until, scale) {
  const bar = (/** @type {string} */ kind, /** @type {number} */ from, /** @type {number} */ to) => {
    const [left, right] = [placeOf(scale, from), placeOf(scale, to)];
    const element = h(`i.bar.is-${kind}`);
    element.style.left = `${(left * 100).toFixed(3)}%`;
    element.style.width = `${Math.max(0, (right - left) * 100).toFixed(3)}%`;
    return element;
  };
  if (value.kind === "attempt") return [bar("attempt", value.from, until)];
  if (value.kind === "question") return [bar("person", value.from, until)];
  if (value.kind !== "model") return [bar(`${value.kind}${value.state === "unknown" ? ".is-cut" : ""}`, value.from, until)];
  const { thinkFrom, thinkTo, writeFrom, writeTo } = value.parts ?? {};
  const first = thinkFrom ?? writeFrom ?? until;
  return [bar("first", value.from, first), thinkFrom && bar("think", thinkFrom, writeFrom ?? thinkTo), writeFrom && bar("write", writeFrom, Math.max(writeTo, value.to ?? writeTo)), ...(value.retries ?? []).map((/** @type {any} */ { atMs, retry_in_ms: pause }) => bar("retry", atMs, atMs + pause))];
}

/** @type {(place: HTMLElement, sums: {model: number, tools: number, people: number, idle: number}) => void} */
function showSums(place, { model, tools, people, idle }) {
  const parts = [["model", "model", model], ["tools", "tools and children", tools], ["idle", "no worker", idle], ["people", "people", people]].filter(([, , ms]) => Number(ms) > 0);
  fill(place, parts.map(([kind, words, ms]) => h("span", {}, h(`i.sum.is-${kind}`, { "aria-hidden": "true" }), `${words} ${duration(Number(ms))}`)));
}

/** @type {(axis: HTMLElement, scale: any[], from: number, isOpen: boolean) => void} */
function showAxis(axis, scale, from, isOpen) {
  let before = 0;
  /** @type {HTMLElement[]} */
  const marks = [];
  for (const { from: begin, to, share, isFolded } of scale) {
    const ticks = isFolded ? 0 : Math.max(1, Math.round(share * TICKS));
    for (let i = 0; i < ticks; i += 1) marks.push(mark(h("span", {}, clockOf(begin + ((to - begin) * i) / ticks - from, (to - begin) / ticks)), before + (share * i) / ticks));
    if (isFolded) marks.push(mark(h("i.fold", { title: `${duration(to - begin)} of waiting, folded` }), before, share));
    before += share;
  }
  fill(axis, marks, isOpen && h("span.now", {}, "now"));
}

/** @type {(element: HTMLElement, left: number, width?: number) => HTMLElement} */
function mark(element, left, width) {
  element.style.left = `${(left * 100).toFixed(2)}%`;
  if (width) element.style.width = `${(width * 100).toFixed(2)}%`;
  return element;
}

/** @type {(ms: number, step: number) => string} Returns a time since the beginning, as exact as ticks this far apart need. */
function clockOf(ms, step) {
  if (step < 100 && ms < 10_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 3600 ? `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` : `${count(Math.floor(seconds / 3600))} h ${Math.floor((seconds % 3600) / 60)}`;
}
