// @ts-check
// A form made of a tool's schema: it calls the tool as a run without a model, or gives the arguments as JSON.

import { LLMResponse } from "../story/LLMResponse.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { copyButton } from "../../dom/copyButton.js";
import { duration } from "../../dom/format.js";
import { fill, h, icon } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { newKey } from "../../services/api.js";
import { callTool } from "../../services/admin.js";
import { effectWords, errorWords } from "../../state/words.js";
import { confirmed } from "../../ui/Confirm.js";
import { Form } from "../../ui/Form.js";

/** @param {{name: string, schema: any, agents: () => string[], item: () => any, nameOf: (id: string) => string, onCalled: () => void}} given */
export function ToolCall({ name, schema, agents, item, nameOf, onCalled }) {
  const outcome = h("div.call-outcome", { "aria-live": "polite" });
  const agent = /** @type {HTMLSelectElement} */ (h("select", { id: "call-agent" }));
  watch(() => {
    const chosen = agent.value;
    fill(agent, agents().map((id) => h("option", { value: id }, visible(nameOf(id)))));
    if (agents().includes(chosen)) agent.value = chosen;
  });
  const asText = (/** @type {object} */ args) => fill(outcome, h("p.row", {}, h("span.caps", {}, "Arguments"), copyButton(() => asJson(args))), h("pre.result", { tabindex: "0", "aria-label": "The arguments as JSON" }, visible(asJson(args))));
  const form = new Form({ form: schema, words: ["Call it"], more: { "As JSON": asText }, onAnswer: (/** @type {object} */ args) => call(args) });

  async function call(/** @type {object} */ args) {
    const { effect, needs_approval: asks } = item();
    const words = `${effectWords(effect)} It is called as ${visible(nameOf(agent.value))}'s tool, and recorded as a run.${asks ? " A person approves the call first." : ""}`;
    if (effect !== "pure" && !(await confirmed({ title: `Call ${name}?`, text: words, go: "Call it" }))) return;
    fill(outcome, LoadingIndicator("Calling"));
    form.element.setAttribute("aria-busy", "true");
    try {
      fill(outcome, outcomeOf(await callTool({ tool: name, agent: agent.value, args, key: newKey() })));
    } catch (/** @type {any} */ error) {
      fill(outcome, Notice({ title: "Not called", text: errorWords(error), code: error.code }), error.facts?.run_id && runLink(error.facts.run_id));
    } finally {
      form.element.removeAttribute("aria-busy");
      onCalled();
    }
  }
  const takesNothing = !Object.keys(schema.properties ?? {}).length;
  return h("div.tool-call", {}, h("div.form-field", {}, h("label", { for: "call-agent" }, "As the tool of"), agent), takesNothing && h("p.faint", {}, "It takes no argument."), form.element, outcome);
}

/** @type {(answer: any) => any[]} */
function outcomeOf({ status, output, error, code, reason, execution_time_ms: took, run_id: runId }) {
  const isOpen = ["queued", "running", "waiting"].includes(status);
  if (code === "approval_required") return [Notice({ tone: "wait", title: "It waits for a person", text: reason }), runLink(runId)];
  if (isOpen) return [Notice({ tone: "plain", title: "It has not ended yet", text: "The call continues; its run shows what comes of it." }), runLink(runId)];
  if (status !== "succeeded") return [Notice({ title: `The call ${status === "failed" ? "failed" : `is ${status}`}`, text: error, code }), runLink(runId)];
  return [h("p.row", {}, icon("succeeded"), h("span", {}, `It took ${duration(took)}.`), runLink(runId)), resultOf(output)];
}

/** @type {(output: any) => any} */
function resultOf(output) {
  if (output === undefined || output === "") return h("p.faint", {}, "It returned nothing.");
  return typeof output === "object" ? LLMResponse(output) : h("pre.result", { tabindex: "0", dir: "auto", "aria-label": "The result" }, visible(String(output)));
}

/** @type {(runId: string) => HTMLElement} */
function runLink(runId) {
  return h("a.quiet", { href: `#/run/${encodeURIComponent(runId)}` }, "Its run");
}
