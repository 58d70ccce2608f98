// @ts-check
import { ArgumentList } from "../../ui/ArgumentList.js";
import { copyButton } from "../../dom/copyButton.js";
import { cost, duration, exactly, plural, tokens } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { each, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { resource } from "../../services/resource.js";
import { getRunFile, getStepFacts, save } from "../../services/runFiles.js";
import { clockOf } from "../../state/timeline.js";
import { byWords, decisionWords, effectWords, errorWords } from "../../state/words.js";
import { Loaded } from "../../ui/Loaded.js";
import { shortened } from "./Comparison.js";
import { whyOf } from "./DecisionTable.js";

const MOST_CHARS = 4000;
const MOST_SPANS = 12;

/** What is known of the step that is chosen in the timeline. */
export class StepPanel {
  #shown = "";

  /** @param {{run: () => any, runId: string, facts: import("../../state/timeline.js").RunFacts, timeline: import("./Timeline.js").Timeline, onEvents: (stepId: string) => void}} given */
  constructor({ run, runId, facts, timeline, onEvents }) {
    this.run = run;
    this.facts = facts;
    this.onEvents = onEvents;
    const [words, requests] = [h("div"), h("div")];
    this.element = h("aside.step-panel", { "aria-label": "The chosen step", tabindex: "0" }, words, requests);
    watch(() => {
      const row = timeline.shown.value;
      const key = JSON.stringify([row, facts.end?.seq, run()?.kind]);
      if (key === this.#shown) return;
      this.#shown = key;
      fill(words, row ? this.#step(row) : h("p.faint", {}, "No step has begun."));
    });
    const calls = () => [timeline.shown.value].filter((row) => row?.id && row.to !== null);
    each(requests, calls, ({ id }) => id, (row) => Loaded(resource(() => getStepFacts(runId, row.peek().number)), stepFacts, "its requests"));
  }

  /** @param {any} row */
  #step(row) {
    const args = row.call?.arguments ?? row.input;
    const { run_id, kind } = this.run() ?? {}, isWhole = this.facts.end && kind === "agent";
    return [
      h("h2", {}, row.kind === "model" ? visible(row.name) : h("code", {}, visible(row.name))),
      h("p.step-badges", {}, [row.call?.effect ?? row.effect, row.kind === "question" ? (row.to === null ? "open" : decisionWords(row.state)) : row.state].filter(Boolean).map((word) => h("span.badge", {}, visible(word)))),
      row.kind === "tool" && h("p.soft", {}, effectWords(row.call?.effect ?? row.effect)),
      args && typeof args === "object" && [ArgumentList(args), copyButton(() => asJson(args), "Copy arguments")],
      h("h3.caps", {}, "What happened"), this.#story(row),
      row.error && [h("h3.caps", {}, "Error"), h("p", {}, visible(row.error))],
      row.result !== undefined && row.kind === "tool" && !row.isCut && [h("h3.caps", {}, "Result"), h("pre.result", { tabindex: "0" }, visible(shortened(row.result, MOST_CHARS)))],
      row.usage && [h("h3.caps", {}, "Usage"), h("p", {}, tokens(row.usage.input_tokens ?? 0, row.usage.output_tokens ?? 0), row.cost_usd ? ` · ${cost(row.cost_usd)}` : "")],
      row.child_run_id && h("p", {}, h("a.link", { href: addressOf("/run/:runId", { runId: row.child_run_id }) }, "Open the child run")),
      row.id && h("p.row", {}, h("button.quiet", { type: "button", onclick: () => this.onEvents(row.id) }, "Its events"), isWhole && h("button.quiet", { type: "button", title: "A test replays the run with AgentKit.replay(file), without a model and without a call of a tool", onclick: (/** @type {any} */ { target }) => getRunFile(run_id, "recording").then((text) => save(`${run_id}.json`, text), (error) => say(target, errorWords(error))) }, "Make a test of the run")),
    ];
  }

  // In times since the run began.
  #story(/** @type {any} */ row) {
    const { from, to, last } = this.facts;
    const lines = [
      [row.from, row.kind === "question" ? row.reason ?? "asked" : "began"],
      ...(row.retries ?? []).map((/** @type {any} */ { atMs, code, message, retry_in_ms: pause }) => [atMs, `${code}: ${message} Again after ${duration(pause)}.`]),
      [row.parts?.thinkFrom ?? row.parts?.writeFrom, "first token"],
      [row.to, row.kind === "question" ? [decisionWords(row.state), byWords(row), row.word].filter(Boolean).join(", ") : `${row.isCut ? "cut off" : "ended"} after ${duration(row.to - row.from)}`],
    ];
    return h("dl.story", {}, lines.filter(([at, words]) => at && words).map(([at, words]) => [h("dt", { title: exactly(at) }, clockOf(at - from, (to ?? last) - from)), h("dd", {}, visible(words))]));
  }
}

/** @type {(facts: {spans: any[], decision: any}) => any[]} */
function stepFacts({ spans, decision }) {
  const rest = spans.length - MOST_SPANS;
  return [
    spans.length > 0 && [h("h3.caps", {}, "Requests it made"), h("table.plain", { "aria-label": "Requests" }, h("tbody", {}, spans.slice(0, MOST_SPANS).map(({ name, status, error, duration_ms: ms }) => h("tr", {}, h("td", {}, visible(name)), h("td.n", {}, visible(String(status ?? error ?? ""))), h("td.n", {}, ms === undefined ? "" : duration(ms)))))), rest > 0 && h("p.soft", {}, `and ${plural(rest, "other")}`)],
    decision && [h("h3.caps", {}, "Policy"), h("p", {}, `${decision.verdict} · `, h("code", {}, visible(decision.rule)), `${decision.version ? `, version ${visible(decision.version.slice(0, 8))}` : ""}. ${whyOf(decision)}`)],
  ];
}
