import { fill, h } from "../dom/h.js";
import { visible } from "../dom/visible.js";
import { getDecisions } from "../services/api.js";
import { errorWords } from "../state/words.js";

/** What the policy decided about each call of an ended run; asked for when it is opened. */
export function DecisionList(runId) {
  const list = h("div.decision-list");
  let isAsked = false;
  const ask = async () => {
    if (isAsked || !details.open) return;
    isAsked = true;
    fill(list, h("p", {}, "Loading …"));
    try {
      fill(list, tableOf(await getDecisions(runId)));
    } catch (error) {
      isAsked = false;
      fill(list, h("p", {}, errorWords(error)));
    }
  };
  const details = h("details.decisions", { ontoggle: ask }, h("summary", {}, "Policy decisions"), list);
  return details;
}

function tableOf(decisions) {
  if (!decisions.length) return h("p", {}, "No decision was recorded.");
  return h("ol", {}, decisions.map((one) => h("li", {}, h("b", {}, visible(one.name)), ` ${one.verdict} · `, h("code", {}, visible(one.rule)), why(one))));
}

function why({ reason, seen, arguments: changed }) {
  const parts = [reason && visible(reason), changed && `Arguments: ${visible(JSON.stringify(changed).slice(0, 300))}.`, seen?.length && `Labels: ${visible(seen.join(", "))}.`];
  const said = parts.filter(Boolean).join(" ");
  return said && h("span", {}, ` ${said}`);
}
