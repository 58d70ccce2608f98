// @ts-check
import { h } from "../../dom/h.js";
import { cost, duration, plural, tokens } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { errorWords } from "../../state/words.js";
import { LLMResponse } from "../story/LLMResponse.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";

/** @import { Steps } from "../../../../clients/typescript/src/types.js" */
/** @typedef {Steps["steps"][number] & {node: string}} Step One attempt at a node. */

const MOST_CHARS = 60_000;

/** @type {(state: import("../../state/graphState.js").NodeState, steps: Step[] | null, error: any) => any} Returns what a node got, gave and how it went, for each of its attempts: its `steps`, null before they are read. */
export function NodeOutcome({ status, content }, steps, error) {
  if (status === "ahead") return h("p.faint", {}, "The run has not come here.");
  if (status === "skipped") return h("p.faint", {}, "The run went another way.");
  if (error) return Notice({ text: errorWords(error), code: error.code });
  if (!steps) return LoadingIndicator("Loading");
  const last = steps.at(-1);
  if (!last) return [status === "failed" && errorOf(content), h("p.faint", {}, "It has no step of its own: it passes on what it got.")];
  return [h("p.panel-facts", {}, factsOf(last, steps)), steps.slice(0, -1).map(attempt), section("Error", errorOf(last.error)), section("Input", value(last.input)), section("Output", value(last.result))];
}

/** @type {(step: Step, steps: Step[]) => string} */
function factsOf(step, steps) {
  const took = step.ended_at ? duration(Date.parse(step.ended_at) - Date.parse(step.started_at)) : "";
  const { input_tokens: read, output_tokens: written } = step.usage ?? {};
  const facts = [took, steps.length > 1 && plural(steps.length, "attempt"), written !== undefined && tokens(read ?? 0, written), step.cost_usd && cost(step.cost_usd), step.name];
  return facts.flatMap((fact) => (fact ? visible(fact) : [])).join(" · ");
}

// What an earlier attempt came to.
function attempt(/** @type {Step} */ step) {
  return h("details.panel-attempt", {}, h("summary", {}, `Attempt ${step.attempt}: ${step.status}`), errorOf(step.error), section("Output", value(step.result)));
}

function errorOf(/** @type {string | undefined} */ error) {
  return error ? Notice({ text: error }) : null;
}

/** @type {(title: string, content: HTMLElement | null) => HTMLElement | null} */
function section(title, content) {
  return content && h("section", {}, h("h4.caps", {}, title), content);
}

/** @type {(data: any) => HTMLElement | null} */
function value(data) {
  if (data === null || data === undefined || data === "") return null;
  if (typeof data === "object") return LLMResponse(data);
  const text = String(data);
  return h("pre", { tabindex: "0", dir: "auto" }, visible(text.slice(0, MOST_CHARS)) + (text.length > MOST_CHARS ? " …" : ""));
}
