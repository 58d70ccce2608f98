// @ts-check
import { cost, count, duration, plural } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { totalsOf, usesOf } from "../../state/usage.js";

const HEADS = ["Step", "Model", "Read", "of it cached", "Written", "First token", "Tokens a second", "Time", "Cost"];

/** Return what each call of a model used, and the sums. */
export function UsageTable(/** @type {import("./Timeline.js").Timeline} */ timeline) {
  const element = h("div.run-tab");
  let shown = "";
  watch(() => {
    const uses = usesOf(timeline.rows.value); // which are new rows with each second of an open run
    const key = JSON.stringify(uses);
    if (shown === key) return;
    shown = key;
    fill(element, uses.length ? table(uses) : h("p.soft", {}, "This run has asked no model yet."));
  });
  return element;
}

/** @type {(uses: import("../../state/usage.js").Use[]) => HTMLElement} */
function table(uses) {
  const sums = totalsOf(uses);
  const cells = (/** @type {any[]} */ parts) => parts.map((part, i) => h(i === 1 ? "td" : "td.n", {}, part ?? "–"));
  return h("table.plain", { "aria-label": "Usage" }, h("thead", {}, h("tr", {}, HEADS.map((words, i) => h(i === 1 ? "th" : "th.n", { scope: "col" }, words)))),
    h("tbody", {}, uses.map((use) => h("tr", {}, cells([count(use.number), [visible(use.name), use.attempt > 1 && h("small", {}, ` attempt ${count(use.attempt)}`)], count(use.read), count(use.cached), count(use.written), use.firstMs === undefined ? undefined : duration(use.firstMs), use.speed === undefined ? undefined : count(Math.round(use.speed)), use.ms === undefined ? "so far" : duration(use.ms), use.cost === undefined ? undefined : cost(use.cost)])))),
    h("tfoot", {}, h("tr", {}, cells(["", plural(uses.length, "call"), count(sums.read), count(sums.cached), count(sums.written), "", "", duration(sums.ms), sums.cost === undefined ? undefined : cost(sums.cost)]))));
}
