// @ts-check
import { fill, h, icon, say } from "../../dom/h.js";
import { cost, exactly, ticking, took } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { threadHash } from "../../router.js";
import { ownerWords, threadKey } from "../../state/me.js";
import { stateWords } from "../../state/words.js";
import { sentence } from "../../ui/Notice.js";

/** @typedef {import("../../state/board.js").Run} Run */
/** @typedef {{nameOf: import("../../state/definitions.js").NameOf, wordsOf?: (run: Run) => string, hrefOf?: (run: Run) => string}} Given More than names where a card does not stand beside the conversation. */

/** What to type, in the sentences of a wait: a card has no room for it, and the run's own page shows it. */
const COMMAND = / \(`[^`]*`\)/g;

/** One run on the board: who, what, how long, and why when it waits or failed. */
export class RunCard {
  #key = "";

  constructor(/** @type {Run} */ run, /** @type {Given} */ { nameOf, wordsOf = causeOf, hrefOf = (/** @type {Run} */ run) => threadHash(threadKey(run.thread_id, run.principal), run.run_id) }) {
    this.run = run;
    this.nameOf = nameOf;
    this.wordsOf = wordsOf;
    this.hrefOf = hrefOf;
    this.mark = h("span.mark");
    this.name = h("b");
    this.clock = h("span.clock");
    this.what = h("div.what");
    this.by = h("div.by");
    this.why = h("div.why");
    this.spark = h("div.spark", { "aria-hidden": "true", hidden: true });
    this.element = h("a.run", {}, h("div.top", {}, this.mark, this.name, this.clock), this.what, this.by, this.why, this.spark);
  }

  update(/** @type {Run} */ run) {
    this.run = run;
    const why = visible(this.wordsOf(run)), key = JSON.stringify([run.status, why, run.title, run.agent_name, run.cost_usd, run.kind]);
    if (key !== this.#key) this.#paint(run, why);
    this.#key = key;
    this.tick();
  }

  /** Update the clock. */
  tick() {
    say(this.clock, clockOf(this.run));
  }

  /** Draw how lively the run is: pieces in each of the last half seconds. */
  drawRate(/** @type {number[]} */ counts) {
    this.spark.hidden = this.run.status !== "running" || !counts.some(Boolean);
    if (this.spark.hidden) return;
    while (this.spark.children.length < counts.length) this.spark.append(h("i"));
    const most = Math.max(4, ...counts);
    counts.forEach((n, i) => { /** @type {HTMLElement} */ (this.spark.children[i]).style.height = `${Math.max(6, (n / most) * 100)}%`; });
  }

  /** @type {(run: Run, why: string) => void} */
  #paint(run, why) {
    this.element.href = this.hrefOf(run);
    this.element.dataset.run = run.run_id;
    this.element.dataset.state = run.status;
    // What is cut on the card stands here in full.
    this.element.title = [visible(run.title ?? run.run_id), why, exactly(run.created_at)].filter(Boolean).join("\n");
    fill(this.mark, icon(run.status, run.status === "running" ? "is-pulsing" : ""), h("span.offscreen", {}, stateWords(run.status, run.reason)));
    say(this.name, visible(this.nameOf(run.agent, run.agent_name)));
    say(this.what, `${run.kind === "tool" ? "⚙ " : ""}${visible(run.title ?? run.run_id)}`);
    say(this.by, visible(ownerWords(run.principal)));
    this.by.hidden = !this.by.textContent;
    say(this.why, why);
    this.why.hidden = !this.why.textContent;
  }
}

function clockOf(/** @type {Run} */ run) {
  const began = Date.parse(run.started_at ?? run.created_at);
  const duration_ms = run.duration_ms ?? (run.ended_at ? Date.parse(run.ended_at) - began : undefined);
  if (duration_ms === undefined) return ticking(Date.now() - began);
  return [took({ duration_ms, work_ms: run.work_ms }), run.cost_usd ? cost(run.cost_usd) : ""].filter(Boolean).join(" · ");
}

/** Return why a run waits or has failed, or an empty text. */
export function causeOf(/** @type {Run} */ run) {
  if (run.status === "failed" || run.status === "dead") return run.error ?? run.reason ?? "";
  if (run.status === "queued") return run.reason === "answered" ? "answered; continues in a moment" : run.detail ?? run.reason ?? "queued";
  if (run.status === "waiting") return run.detail ? sentence(run.detail.replace(COMMAND, "")) : stateWords(run.status, run.reason);
  return run.status === "succeeded" ? run.reason ?? "" : "";
}
