import { h } from "../dom/h.js";
import { addStyles } from "../dom/styles.js";

/** What the policy decided about each call of an ended run; loaded when it is opened. */
export function DecisionList(runId) {
  let table = null;
  const load = () => Promise.all([import("../views/run/DecisionTable.js"), addStyles("/static/style/run.css")])
    .then(([{ DecisionTable }]) => details.append(DecisionTable(runId)), () => { table = null; });
  const details = h("details.decisions", { ontoggle: () => { if (details.open) table ??= load(); } }, h("summary", {}, "Policy decisions"));
  return details;
}
