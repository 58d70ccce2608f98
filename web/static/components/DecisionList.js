import { h } from "../dom/h.js";
import { addressOf } from "../router.js";

/** Return a link to what the policy decided about each call of a run, in the view of the run. */
export function DecisionList(runId) {
  return h("p.decisions", {}, h("a.quiet", { href: addressOf("/run/:runId", { runId }, { tab: "decisions" }) }, "Policy decisions"));
}
