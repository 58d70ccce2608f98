// @ts-check
import { cost, count, duration } from "../../dom/format.js";
import { h } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { getRun, getSteps } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { comparedFacts, pairedSteps } from "../../state/compare.js";
import { stateWords } from "../../state/words.js";
import { Loaded } from "../../ui/Loaded.js";

const MOST_CHARS = 600;
const FORMS = /** @type {Record<string, (value: any) => string>} */ ({ cost, time: duration, "time at work": duration, "tokens read": count, "tokens written": count });

/** Return this run beside another one; without the other's id a field that asks for it. */
export function Comparison(/** @type {string} */ runId, /** @type {string} */ otherId) {
  const field = h("input", { name: "other", placeholder: "run_…", "aria-label": "The other run's id", value: otherId, dir: "ltr", spellcheck: "false" });
  const compare = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    location.hash = addressOf("/run/:runId", { runId }, { tab: "compare", with: field.value.trim() });
  };
  return h("div.run-tab", {}, h("form.tab-tools", { onsubmit: compare }, h("label", {}, "Beside this run stands ", field), h("button.btn", {}, "Compare")),
    otherId && Loaded(resource(() => Promise.all([runId, otherId].map(async (id) => ({ run: await getRun(id).catch(unlessUnknown), steps: await getSteps(id) })))), ([left, right]) => [factTable(left.run, right.run), stepTable(left.steps, right.steps)], "both runs"));
}

/** @type {(left: any, right: any) => HTMLElement} */
function factTable(left, right) {
  const cell = (/** @type {string} */ name, /** @type {any} */ value) => h("td.wide", {}, value === undefined ? "–" : FORMS[name]?.(value) ?? visible(shortened(value)));
  return h("table.plain.compared", { "aria-label": "Facts" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Fact"), h("th", { scope: "col" }, runLink(left)), h("th", { scope: "col" }, runLink(right)))),
    h("tbody", {}, comparedFacts(left, right).map(({ name, left: one, right: other, isSame }) => h("tr", { "data-differs": isSame ? null : "" }, h("th", { scope: "row" }, name, differs(isSame)), cell(name, one), cell(name, other)))));
}

/** @type {(left: any[], right: any[]) => HTMLElement} */
function stepTable(left, right) {
  const cell = (/** @type {any} */ step) => h("td.wide", {}, step ? [h("b", {}, visible(step.name)), " ", stateWords(step.status), step.duration_ms === undefined ? "" : `, ${duration(step.duration_ms)}`, step.result !== undefined && h("code.clip", {}, visible(shortened(step.result)))] : "–");
  return h("table.plain.compared", { "aria-label": "Steps" }, h("thead", {}, h("tr", {}, ["Step", "Here", "There"].map((words) => h("th", { scope: "col" }, words)))),
    h("tbody", {}, pairedSteps(left, right).map(({ left: one, right: other, isSame }, i) => h("tr", { "data-differs": isSame ? null : "" }, h("th", { scope: "row" }, count(i + 1), differs(isSame)), cell(one), cell(other)))));
}

/** @type {(run: any) => HTMLElement} */
function runLink(run) {
  return h("a.quiet", { href: addressOf("/run/:runId", { runId: run.run_id }) }, `…${run.run_id.slice(-6)}`);
}

/** Return a value as text, cut where it is long. */
export function shortened(/** @type {unknown} */ value, most = MOST_CHARS) {
  const text = typeof value === "string" ? value : asJson(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** @type {(error: any) => never} */
function unlessUnknown(error) {
  throw error.status === 404 ? Object.assign(error, { message: "There is no such run, or you do not see it." }) : error;
}

/** @type {(isSame: boolean) => any} */
function differs(isSame) {
  return !isSame && h("small", {}, " differs");
}
