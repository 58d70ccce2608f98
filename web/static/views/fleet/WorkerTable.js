// @ts-check
import { ago, count, plural, ticking } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { SmallTable } from "../../ui/SmallTable.js";
import { slotsBar } from "./slotsBar.js";

/** @typedef {Record<string, any>} Worker a row of GET /v1/workers; from `host` on for administrators of the deployment alone */

/** The workers, what they work on, and what is wrong with each. */
export class WorkerTable {
  /** @param {import("../../dom/live.js").Signal<{value: Worker[] | undefined}>} state */
  constructor(state) {
    const rows = () => state.value.value ?? [];
    const total = h("p.total");
    const none = h("p.part-note", {}, "No worker gave a sign of life within an hour. Start one: ", h("code", {}, "./callboard worker"));
    const table = SmallTable({ label: "Workers", keyOf: ({ worker_id: id }) => id, rows, columns: [
      { name: "name", title: "Worker", show: (cell, worker) => fill(cell, sign(worker), h("b", { title: worker.worker_id }, `…${worker.worker_id.slice(-6)}`)) },
      { name: "machine", title: "Machine", show: (cell, { host, pid }) => say(cell, host ? `${visible(host)} · ${pid}` : "") },
      { name: "pool", title: "Pool", show: (cell, { pool }) => say(cell, visible(pool)) },
      { name: "slots", title: "Slots", show: showSlots },
      { name: "queues", title: "Queues", show: (cell, { queues = [] }) => { say(cell, visible(queues.join(", "))); cell.title = visible(queues.join(", ")); } },
      { name: "version", title: "Code", show: (cell, { version = "" }) => say(cell, visible(version)) },
      { name: "load", title: "Load", isNumber: true, show: (cell, worker) => say(cell, loadOf(worker)) },
      { name: "beat", title: "Beat", isNumber: true, show: (cell, { seen_s: seen }) => say(cell, ticking(seen * 1000)) },
      { name: "since", title: "Since", show: (cell, worker) => { const words = noteOf(worker); say(cell, words || ago(worker.started_at)); cell.classList.toggle(worker.state === "lost" ? "is-bad" : "is-note", Boolean(words)); cell.title = words; } },
    ] });
    this.element = h("div", {}, total, h("div.wide", {}, table), none);
    watch(() => {
      table.hidden = !rows().length;
      none.hidden = rows().length > 0;
      say(total, wordsOf(rows()));
    });
  }
}

/** @type {(workers: Worker[]) => string} */
function wordsOf(workers) {
  const of = (/** @type {string} */ name) => workers.filter(({ state }) => state === name);
  const [alive, draining, lost] = [of("alive"), of("draining"), of("lost")];
  const slots = alive.reduce((sum, worker) => sum + worker.slots, 0), busy = alive.reduce((sum, worker) => sum + worker.busy, 0);
  return [`${count(alive.length)} alive`, draining.length && `${count(draining.length)} ${draining.length === 1 ? "drains" : "drain"}`, lost.length && `${count(lost.length)} lost`].filter(Boolean).join(", ") + ` · ${count(busy)} of ${plural(slots, "slot")} taken`;
}

/** @type {(worker: Worker) => HTMLElement} The shape says the state as its colour does. */
function sign({ state }) {
  return h(`i.dot.is-${state}`, { title: state }, h("span.offscreen", {}, state));
}

/** @type {(cell: HTMLElement, worker: Worker) => void} */
function showSlots(cell, { state, busy, slots }) {
  const words = `${count(busy)} of ${count(slots)}`;
  if (state === "lost") return void fill(cell, h("span.faint", {}, busy ? `had ${words}` : ""));
  fill(cell, h("div.share", {}, slotsBar(busy, slots), h("span", {}, words)));
}

/** @type {(worker: Worker) => string} */
function loadOf({ cpu_share: cpu, memory_share: memory }) {
  const share = (/** @type {number} */ value) => `${Math.round(value * 100)} %`;
  return [cpu !== undefined && `${share(cpu)} cpu`, memory !== undefined && `${share(memory)} mem`].filter(Boolean).join(", ");
}

/** @type {(worker: Worker) => string} Returns what a person should know of a worker, the most urgent first. */
function noteOf({ state, busy, slots, seen_s: seen, missing_keys: missing = {}, abandoned = {}, dropped = {} }) {
  const names = (/** @type {Record<string, any>} */ facts) => visible(Object.keys(facts).join(", "));
  if (state === "lost") return `lost: no sign for ${ticking(seen * 1000)}`;
  if (state === "draining") return busy ? `drains: ${plural(busy, "run")} left` : "drains";
  if (Object.keys(missing).length) return `lacks ${names(missing)}`;
  if (Object.keys(abandoned).length) return `calls that did not end: ${names(abandoned)}`;
  if (Object.keys(dropped).length) return `too slow for it: ${names(dropped)}`;
  return slots && busy >= slots ? "full" : "";
}
