// @ts-check
import { h } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { getDecisions } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { Loaded } from "../../ui/Loaded.js";

/** Return what the policy decided about each call of the run. */
export function DecisionTable(/** @type {string} */ runId) {
  return h("div.run-tab", {}, Loaded(resource(() => getDecisions(runId)), table, "the decisions"));
}

/** @type {(decisions: any[]) => HTMLElement} */
function table(decisions) {
  if (!decisions.length) return h("p.soft", {}, "The policy has decided about no call of this run yet.");
  const row = (/** @type {any} */ one) => h("tr", {}, h("td.n", {}, String(one.number)), h("td", {}, h("b", {}, visible(one.name))), h("td", {}, h(`span.badge.is-${one.verdict}`, {}, one.verdict)), h("td", {}, h("code", {}, visible(one.rule)), " ", h("small", { title: "The policy's version" }, visible(one.version?.slice(0, 8) ?? ""))), h("td.wide", {}, whyOf(one)));
  return h("table.plain", { "aria-label": "Decisions" }, h("thead", {}, h("tr", {}, ["Step", "Call", "Verdict", "Rule", "Why"].map((words, i) => h(i ? "th" : "th.n", { scope: "col" }, words)))), h("tbody", {}, decisions.map(row)));
}

/** @type {(decision: any) => string} Returns why the policy decided so. */
export function whyOf({ reason, seen, arguments: changed }) {
  const parts = [reason && visible(reason), changed && `It changed the arguments to ${visible(JSON.stringify(changed).slice(0, 300))}.`, seen?.length && `The run had read ${visible(seen.join(", "))}.`];
  return parts.filter(Boolean).join(" ");
}
