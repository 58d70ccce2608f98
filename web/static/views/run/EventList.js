// @ts-check
import { count } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { save } from "../../services/runFiles.js";
import { Table, textColumn } from "../../ui/Table.js";

const PIECES = new Set(["response", "reasoning"]);
const MOST_CHARS = 300;

/** The run's events as they are, with a field that finds some of them; a row opens to its whole JSON. */
export class EventList {
  /** @param {{run: () => any, events: any[], changes: import("../../dom/live.js").Signal<number>, stepId: string}} given `stepId`: of one step alone */
  constructor({ run, events, changes, stepId }) {
    this.step = signal(stepId);
    const words = signal(""), pieces = signal(false), opened = signal(""), shown = signal(/** @type {any[]} */ ([]));
    const rows = new WeakMap();
    const rowOf = (/** @type {any} */ event) => {
      if (!rows.has(event)) rows.set(event, { key: String(event.seq), event, text: factsOf(event) });
      return rows.get(event);
    };
    watch(() => {
      changes.value;
      const word = words.value.toLowerCase(), step = this.step.value;
      shown.value = events.filter((event) => (pieces.value || step || !PIECES.has(event.type)) && (!step || event.step_id === step)).map(rowOf).filter((row) => !word || `${row.event.type} ${row.text}`.toLowerCase().includes(word));
    });
    const input = h("input", { type: "search", placeholder: "Words of an event", "aria-label": "Find events", dir: "auto", oninput: (/** @type {any} */ event) => { words.value = event.target.value; } });
    const box = h("input", { type: "checkbox", onchange: (/** @type {any} */ event) => { pieces.value = event.target.checked; } });
    const total = h("span.faint", { role: "status" });
    const scroller = h("div.view-scroll");
    const columns = [
      textColumn("seq", "Number", ({ event }) => String(event.seq), { isNumber: true }),
      textColumn("at", "At", ({ event }) => `${event.at ?? ""}`.slice(11, 23)),
      { name: "type", title: "Type", show: (/** @type {HTMLElement} */ cell, /** @type {any} */ row) => showType(cell, row, opened) },
      textColumn("facts", "What", (row) => visible(row.text)),
    ];
    const table = new Table({ label: "Events", columns, rows: () => shown.value, scroller });
    const whole = h("pre.event", { tabindex: "0", "aria-label": "The event", hidden: true });
    watch(() => {
      const row = shown.value.find(({ key }) => key === opened.value);
      whole.hidden = !row;
      say(whole, row ? visible(asJson(row.event)) : "");
    });
    watch(() => say(total, `${count(shown.value.length)} of ${count(events.length)}`));
    const clear = h("button.quiet", { type: "button", onclick: () => { this.step.value = ""; } }, "All steps");
    watch(() => { clear.hidden = !this.step.value; });
    const download = () => save(`${run().run_id}.events.json`, JSON.stringify({ run: run(), events }, null, 1));
    fill(scroller, table.element);
    this.element = h("div.events", {}, h("div.bar", {}, h("label.filter", {}, input), h("label.row", {}, box, "Pieces of text"), total, clear, h("button.quiet", { type: "button", onclick: download }, "Download")), h("div.event-columns", {}, scroller, whole));
  }
}

/** @type {(cell: HTMLElement, row: any, opened: any) => void} */
function showType(cell, row, opened) {
  if (!cell.firstChild) cell.append(h("button.quiet", { type: "button" }));
  const button = /** @type {HTMLButtonElement} */ (cell.firstChild);
  say(button, row.event.type);
  button.onclick = () => { opened.value = opened.peek() === row.key ? "" : row.key; };
  button.setAttribute("aria-expanded", String(opened.value === row.key));
}

/** @type {(event: any) => string} */
function factsOf({ seq, run_id, thread_id, type, at, trace_id, correlation_id, context, security_context, step_id, message_id, input_schema, ...facts }) {
  return Object.entries(facts).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ").replace(/\s+/g, " ").slice(0, MOST_CHARS);
}
