// @ts-check
import { count, duration, plural } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { each, signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { usesOf } from "../../state/usage.js";
import { decisionWords, stateWords } from "../../state/words.js";
import { chosenRow, placeOf, rateBars, stretches, ticksOf, timeBy, timelineRows } from "../../state/timeline.js";

const TICKS = 6;
const RATE_COLUMNS = 200;
const SIGNS = /** @type {Record<string, string>} */ ({ done: "succeeded", failed: "failed", unknown: "unknown", started: "running", cancelled: "cancelled", waiting: "waiting", reject: "refused", "cut off": "unknown" });
const KINDS = [["first", "until the first token"], ["think", "thinking"], ["write", "writing"], ["tool", "tool"], ["child", "child run"], ["retry", "before a retry"], ["person", "a person"], ["lost", "no worker"]];

/** What the run did, on a scale of time whose idle stretches are folded. */
export class Timeline {
  /** @param {{facts: import("../../state/timeline.js").RunFacts, changes: any, run: () => any, steps: () => any[], clock: any, chosen: any, onChoose: (key: string) => void}} given */
  constructor({ facts, changes, run, steps, clock, chosen, onChoose }) {
    this.rows = signal(/** @type {any[]} */ ([]));
    /** The row that the panel shows. */
    this.shown = signal(/** @type {any} */ (null));
    const shownKey = signal("");
    const isTrue = signal(false);
    const scale = signal(/** @type {any[]} */ ([]));
    const [sums, axis, list, rate] = [h("div.sums"), h("div.axis", { "aria-hidden": "true" }), h("ol.steps", { "aria-label": "Steps" }), h("div.track-rate", { hidden: true })];
    const fold = h("button.quiet", { type: "button", onclick: () => { isTrue.value = !isTrue.peek(); } });
    watch(() => {
      changes.value;
      const to = facts.to ?? Math.max(clock.value, facts.last);
      this.rows.value = timelineRows(facts, steps());
      scale.value = stretches(this.rows.value, facts.from, to, isTrue.value);
      showSums(sums, timeBy(this.rows.value, to));
      showAxis(axis, scale.value, facts.to === null);
      showRate(rate, rateBars(facts.rates, scale.value, RATE_COLUMNS));
      const folded = scale.value.some(({ isFolded }) => isFolded);
      fold.hidden = !folded && !isTrue.value;
      say(fold, isTrue.value ? "Fold the waits" : "True scale");
    });
    watch(() => {
      this.shown.value = chosenRow(this.rows.value, chosen.value);
      shownKey.value = this.shown.value?.key;
    });
    each(list, () => this.rows.value, (row) => row.key, (row) => stepRow(row, { scale, facts, run, clock, shownKey, onChoose }));
    this.element = h("section.timeline", { "aria-label": "Timeline" }, sums, h("div.track-table", {}, h("div.track-head", {}, h("span.caps", {}, "Step"), axis), rate, list), h("p.legend", {}, KINDS.map(([kind, words]) => h("span", {}, h(`i.bar.is-${kind}`, { "aria-hidden": "true" }), words)), fold));
  }
}

/** @type {(row: any, given: {scale: any, facts: any, run: () => any, clock: any, shownKey: any, onChoose: (key: string) => void}) => HTMLElement} */
function stepRow(row, { scale, facts, run, clock, shownKey, onChoose }) {
  const [name, note, time, track] = [h("span.step-name"), h("span.step-note.clip"), h("span.step-time"), h("span.track", { "aria-hidden": "true" })];
  const { key, kind } = row.peek();
  const isAttempt = kind === "attempt";
  const label = isAttempt ? h("div.step-label", {}, name, note, time) : h("button.step-label", { type: "button", onclick: () => onChoose(key) }, h("span.step-sign"), name, note, time);
  const element = h(`li.step.is-${kind}`, { dataset: { key } }, label, track);
  watch(() => {
    const value = row.value, until = value.to ?? facts.to ?? clock.value;
    say(name, kind === "model" ? "Model" : visible(value.name));
    say(note, noteOf(value, run()));
    say(time, timeOf(value, until));
    const sign = label.querySelector(".step-sign");
    const mark = SIGNS[value.state] ?? (kind === "question" ? "succeeded" : value.state);
    if (sign && label.dataset.sign !== mark) fill(sign, icon(mark), h("span.offscreen", {}, stateWords(value.state)));
    label.dataset.sign = mark;
    fill(track, bars(value, until, scale.value));
  });
  if (!isAttempt) watch(() => label.setAttribute("aria-current", String(shownKey.value === key)));
  return element;
}

/** @type {(value: any, until: number) => string} */
function timeOf({ kind, from, to, isCut, workMs, since }, until) {
  if (kind === "attempt") return duration(workMs + (since === null ? 0 : until - since));
  return duration(until - from) + (isCut ? ", cut off" : to === null ? " so far" : "");
}

/** @type {(value: any, run: any) => string} */
function noteOf({ kind, why, to, since, lostTo, state, by, retries, usage, call, ...value }, run) {
  if (kind === "attempt") return [lostTo ? `worker lost for ${duration(lostTo - to)}` : why && why !== "succeeded" && stateWords(to === null ? "waiting" : why, why), to === null && since !== null && run?.worker_id && `…${run.worker_id.slice(-6)}`].filter(Boolean).join(", ");
  if (kind === "question") return to === null ? "" : [decisionWords(state), by && visible(by)].filter(Boolean).join(", ");
  const speed = usesOf([{ kind, to, usage, ...value }])[0]?.speed;
  const args = Object.values(call?.arguments ?? {}).filter((part) => typeof part !== "object").join(", ").slice(0, 120);
  return [retries?.length && plural(retries.length + 1, "try", "tries"), usage?.output_tokens && plural(usage.output_tokens, "token"), speed && `${count(Math.round(speed))}/s`, visible(args)].filter(Boolean).join(", ");
}

/** @type {(place: HTMLElement, rate: {most: number, bars: {at: number, width: number, height: number}[]}) => void} */
function showRate(place, { most, bars: columns }) {
  place.hidden = !columns.length;
  const drawn = columns.map(({ at, width, height }) => {
    const column = mark(h("i"), at, width);
    column.style.height = `${(height * 100).toFixed(1)}%`;
    return column;
  });
  fill(place, h("span.faint", {}, "Text per second, up to ", h("b", {}, plural(most, "token"))), h("div", { "aria-hidden": "true" }, drawn));
}

/** @type {(value: any, until: number, scale: any[]) => any[]} */
function bars(value, until, scale) {
  const bar = (/** @type {string} */ kind, /** @type {number} */ from, /** @type {number} */ to, words = "") => {
    const left = placeOf(scale, from);
    return mark(h(`i.bar.is-${kind}`, { title: words }, words), left, Math.max(0, placeOf(scale, to) - left));
  };
  const { kind, from, why, retries = [], isCut, lostTo } = value;
  const isBad = isCut || ["worker_lost", "failed", "dead"].includes(why);
  const end = [lostTo && bar("lost", until, lostTo, `no worker ${duration(lostTo - until)}`), isBad && bar("end", until, until)];
  if (kind === "attempt" || kind === "question") return [bar(kind === "attempt" ? kind : "person", from, until), end];
  // Each try, and the pauses between them.
  const tries = [from, ...retries.map((/** @type {any} */ { atMs, retry_in_ms: pause }) => atMs + pause)].map((begin, i) => [begin, retries[i]?.atMs ?? until]);
  const pauses = retries.map((/** @type {any} */ { atMs }, /** @type {number} */ i) => bar("retry", atMs, tries[i + 1][0]));
  if (kind !== "model") return [tries.map(([begin, to]) => bar(`${kind}${isCut ? ".is-cut" : ""}`, begin, to)), pauses, end];
  const { thinkFrom, thinkTo, writeFrom, writeTo } = value.parts ?? {};
  const first = thinkFrom ?? writeFrom ?? until;
  return [tries.map(([begin, to], i) => bar("first", begin, retries[i] ? to : first)), thinkFrom && bar("think", thinkFrom, writeFrom ?? thinkTo), writeFrom && bar("write", writeFrom, Math.max(writeTo, value.to ?? writeTo)), pauses, end];
}

/** @type {(place: HTMLElement, sums: {model: number, tools: number, people: number, idle: number}) => void} */
function showSums(place, { model, tools, people, idle }) {
  const parts = /** @type {[string, string, number][]} */ ([["model", "model", model], ["tools", "tools and children", tools], ["idle", "no worker", idle]]).filter(([, , ms]) => ms > 0);
  const bar = h("div.shares", { "aria-hidden": "true" }, parts.map(([kind, , ms]) => {
    const part = h(`i.sum.is-${kind}`);
    part.style.flexGrow = String(ms);
    return part;
  }));
  fill(place, parts.length > 0 && bar, parts.map(([kind, words, ms]) => h("span", {}, h(`i.sum.is-${kind}`, { "aria-hidden": "true" }), `${words} ${duration(ms)}`)), people > 0 && h("span.people", {}, `${duration(people)} for people`));
}

/** @type {(axis: HTMLElement, scale: any[], isOpen: boolean) => void} */
function showAxis(axis, scale, isOpen) {
  const folds = scale.filter(({ isFolded }) => isFolded).map(({ from, to, share }) => mark(h("i.fold", { title: `${duration(to - from)} of waiting, folded` }), placeOf(scale, from), share));
  fill(axis, ticksOf(scale, TICKS).map(({ at, words }) => mark(h("span", {}, words), at)), folds, isOpen && h("span.now", {}, "now"));
}

/** @type {(element: HTMLElement, left: number, width?: number) => HTMLElement} */
function mark(element, left, width) {
  element.style.left = `${(left * 100).toFixed(3)}%`;
  if (width !== undefined) element.style.width = `${(width * 100).toFixed(3)}%`;
  return element;
}
