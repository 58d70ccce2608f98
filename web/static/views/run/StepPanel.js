// @ts-check
import { ArgumentList } from "../../components/ArgumentList.js";
import { copyButton } from "../../dom/copyButton.js";
import { cost, duration, exactly, tokens } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { byWords, decisionWords, effectWords } from "../../state/words.js";

const MOST_CHARS = 4000;

/** What is known of the step that is chosen in the timeline. */
export class StepPanel {
  #shown = "";

  /** @param {{timeline: import("./Timeline.js").Timeline, chosen: any, onEvents: (stepId: string) => void}} given */
  constructor({ timeline, chosen, onEvents }) {
    this.onEvents = onEvents;
    this.element = h("aside.step-panel", { "aria-label": "The chosen step", "aria-live": "polite" });
    watch(() => {
      const row = chosen.value && timeline.row(chosen.value);
      const key = JSON.stringify(row ?? null);
      if (key === this.#shown) return;
      this.#shown = key;
      fill(this.element, row ? this.#step(row) : h("p.faint", {}, "Choose a step to see its arguments, its result and what became of it."));
    });
  }

  /** @param {any} row */
  #step(row) {
    const args = row.call?.arguments ?? row.input;
    return [
      h("h2", {}, row.kind === "model" ? visible(row.name) : h("code", {}, visible(row.name))),
      h("p.step-badges", {}, [row.call?.effect ?? row.effect, row.kind === "question" ? (row.to === null ? "open" : decisionWords(row.state)) : row.state].filter(Boolean).map((word) => h("span.badge", {}, visible(word)))),
      row.kind === "tool" && h("p.soft", {}, effectWords(row.call?.effect ?? row.effect)),
      args && typeof args === "object" && [ArgumentList(args), copyButton(() => asJson(args), "Copy arguments")],
      h("h3.caps", {}, "What happened"), story(row),
      row.error && [h("h3.caps", {}, "Error"), h("p", {}, visible(row.error))],
      row.result !== undefined && row.kind === "tool" && [h("h3.caps", {}, "Result"), h("pre.result", { tabindex: "0" }, visible(shortened(row.result)))],
      row.usage && [h("h3.caps", {}, "Usage"), h("p", {}, tokens(row.usage.input_tokens ?? 0, row.usage.output_tokens ?? 0), row.cost_usd ? ` · ${cost(row.cost_usd)}` : "")],
      row.child_run_id && h("p", {}, h("a.link", { href: addressOf("/run/:runId", { runId: row.child_run_id }) }, "Open the child run")),
      row.id && h("p", {}, h("button.quiet", { type: "button", onclick: () => this.onEvents(row.id) }, "Its events")),
    ];
  }
}

/** @type {(row: any) => HTMLElement} */
function story(row) {
  const first = row.parts?.thinkFrom ?? row.parts?.writeFrom;
  const lines = [
    [exactly(new Date(row.from).toISOString()), "began"],
    ...(row.retries ?? []).map((/** @type {any} */ retry) => [exactly(retry.at), `${retry.code}: ${retry.message}`]),
    first && [`${duration(first - row.from)} later`, "first token"],
    row.reason && row.kind === "question" && ["", row.reason],
    row.to !== null && [exactly(new Date(row.to).toISOString()), row.kind === "question" ? `${decisionWords(row.state)}, ${byWords(row)}` : `ended after ${duration(row.to - row.from)}`],
  ].filter(Boolean);
  return h("dl.story", {}, lines.map(([at, words]) => [h("dt", {}, at), h("dd", {}, visible(words))]));
}

/** @type {(value: unknown) => string} */
function shortened(value) {
  const text = typeof value === "string" ? value : asJson(value);
  return text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text;
}
