// @ts-check
import { count, plural, ticking } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { withCode } from "../../ui/Notice.js";
import { addressOf } from "../../router.js";
import { SmallTable } from "../../ui/SmallTable.js";

/** @typedef {Record<string, any>} Queue a row of GET /v1/queues */

const MOST_NAMES = 3;

/** The queues: how much waits in each, whose it is, and who works on it. */
export class QueueTable {
  /** @param {import("../../dom/live.js").Signal<{value: Queue[] | undefined}>} state */
  constructor(state) {
    const rows = () => state.value.value ?? [];
    const total = h("p.total");
    this.element = h("div", {}, total, h("div.wide", {}, SmallTable({ label: "Queues", keyOf: ({ queue }) => queue, rows, columns: [
      { name: "queue", title: "Queue", show: (cell, { queue }) => fill(cell, h("a.mono", { href: addressOf("/board", {}, { queue, status: "queued" }) }, visible(queue))) },
      { name: "queued", title: "Waiting", isNumber: true, show: (cell, { queued }) => { say(cell, count(queued)); cell.classList.toggle("is-some", queued > 0); } },
      { name: "oldest", title: "Oldest", isNumber: true, show: (cell, { oldest_s: oldest }) => say(cell, oldest === undefined ? "" : ticking(oldest * 1000)) },
      { name: "served", title: "Served by", show: (cell, queue) => showServed(cell, queue) },
      { name: "whose", title: "Whose", show: (cell, queue) => showWhose(cell, queue.tenants ?? queue.owners ?? {}) },
    ] })));
    watch(() => say(total, `${plural(rows().reduce((sum, { queued }) => sum + queued, 0), "run")} wait`.replace("1 run wait", "1 run waits")));
  }
}

/** @type {(cell: HTMLElement, queue: Queue) => void} */
function showServed(cell, { workers, slots, busy, detail, queued }) {
  cell.classList.toggle("is-bad", !workers && queued > 0);
  if (!workers) return void fill(cell, withCode(visible(detail ?? "no worker")));
  const isFull = slots > 0 && busy >= slots;
  say(cell, `${plural(workers, "worker")}, ${isFull ? "full" : `${count(busy)} of ${plural(slots, "slot")} taken`}`);
}

/** @type {(cell: HTMLElement, whose: Record<string, number>) => void} */
function showWhose(cell, whose) {
  const names = Object.entries(whose).sort(([, a], [, b]) => b - a);
  const words = names.map(([name, number]) => `${visible(name)} ${count(number)}`);
  say(cell, words.slice(0, MOST_NAMES).join(", ") + (words.length > MOST_NAMES ? ` and ${words.length - MOST_NAMES} more` : ""));
  cell.title = words.join(", ");
}
