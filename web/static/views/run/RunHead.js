// @ts-check
import { Notice } from "../../ui/Notice.js";
import { copyButton } from "../../dom/copyButton.js";
import { cost, count, exactly } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { addressOf, threadHash } from "../../router.js";
import { newKey, retryRun, stopRun } from "../../services/api.js";
import { isMe, mayStop, ownerOf, threadKey } from "../../state/me.js";
import { OVER } from "../../state/story.js";
import { byWords, errorWords, stateWords } from "../../state/words.js";
import { confirmed } from "../../ui/Confirm.js";

/** The head of a run: where it belongs, its title, what can be done with it, and its facts. */
export class RunHead {
  #shown = "";

  /** @param {{app: any, facts: import("../../state/timeline.js").RunFacts, line: HTMLElement, time: HTMLElement}} given */
  constructor({ app, facts, line, time }) {
    this.app = app;
    this.facts = facts;
    this.line = line;
    this.element = h("header.run-head");
    this.state = h("dd.fact-state", {}, h("span"), h("strong"), " · ", time);
  }

  // What a summary says is drawn when it has changed: a button that has the focus keeps it.
  show(/** @type {{value: any, error: any}} */ { value: run, error }) {
    const key = JSON.stringify([run ?? null, error?.code ?? null, this.facts.attempts.length, this.facts.error, this.facts.stoppedBy]);
    if (this.#shown === key) return;
    this.#shown = key;
    if (!run) return void fill(this.element, crumbs(), error ? missing(error) : h("p.faint", {}, "Reading the run"));
    this.state.dataset.state = run.status;
    fill(/** @type {HTMLElement} */ (this.state.firstChild), icon(run.status));
    say(/** @type {HTMLElement} */ (this.state.children[1]), stateWords(run.status, run.reason));
    fill(this.element,
      crumbs(" / ", h("a", { href: addressOf("/board", {}, { agent: run.agent }) }, visible(this.app.nameOf(run.agent, run.agent_name))), " / ", h("code", {}, `…${run.run_id.slice(-6)}`), " ", copyButton(() => run.run_id, "Copy id"), " ", copyButton(() => location.href.split("?")[0], "Copy link")),
      h("div.run-title", {}, h("h1", { dir: "auto", title: visible(run.title ?? "") }, visible(run.title ?? run.run_id)), h("div.row", {}, this.#actions(run))),
      h("dl.run-facts", {}, h("div", {}, h("dt.offscreen", {}, "state"), this.state), factsOf(run, this.facts.attempts.length)), h("div.run-problem", { role: "alert" }), whyOf(run, this.facts), this.line);
  }

  /** Stop the run, if that can be done, after a question. */
  stop() {
    /** @type {HTMLElement | null} */ (this.element.querySelector("[aria-keyshortcuts]"))?.click();
  }

  /** @param {any} run */
  #actions(run) {
    const isOver = OVER.has(run.status);
    const act = (/** @type {string} */ words, /** @type {() => Promise<any>} */ call, /** @type {string} */ mark, key = "") => h("button.btn", { type: "button", "aria-keyshortcuts": key || null, onclick: (/** @type {any} */ event) => this.#attempt(event.currentTarget, call) }, icon(mark), words, key && h("kbd", { "aria-hidden": "true" }, key));
    const stop = async () => await confirmed({ title: "Stop this run?", text: "What it does now is cut off, and what it has done is not undone.", go: "Stop the run" }) && stopRun(run.run_id);
    return [
      h("a.btn", { href: threadHash(threadKey(run.thread_id, run.principal), run.run_id) }, icon("talk"), "Conversation"),
      isOver && run.status !== "succeeded" && act("Retry", async () => { location.hash = addressOf("/run/:runId", { runId: (await retryRun(run.run_id, newKey())).run_id }); }, "again"),
      !isOver && mayStop(run.principal) && act("Stop", stop, "stop", "s"),
    ];
  }

  /** @type {(button: HTMLButtonElement, call: () => Promise<any>) => Promise<void>} */
  async #attempt(button, call) {
    button.disabled = true;
    try {
      await call();
    } catch (/** @type {any} */ error) {
      const place = this.element.querySelector(".run-problem");
      if (place) fill(place, Notice({ text: errorWords(error), code: error.code }));
    } finally {
      button.disabled = false;
    }
  }
}

function crumbs(/** @type {any[]} */ ...more) {
  return h("p.crumbs", {}, h("a", { href: "#/board" }, "Board"), more);
}

function missing(/** @type {any} */ error) {
  const isUnknown = error.status === 404;
  return Notice({ title: isUnknown ? "There is no such run" : "The run could not be read", text: isUnknown ? "It may be mistyped, removed, or of a person whose runs you do not see." : errorWords(error), code: error.code });
}

// Why it ended, or what it waits for where that is no question.
/** @type {(run: any, facts: import("../../state/timeline.js").RunFacts) => any} */
function whyOf({ status, reason, detail, approvals }, { error: last, stoppedBy }) {
  if (status === "failed" || status === "dead") return Notice({ text: last?.message ?? "The run gave no reason.", code: last?.code ?? reason });
  if (status === "cancelled") return h("p.run-why", {}, `Stopped ${byWords({ by: stoppedBy, mine: isMe(stoppedBy) })}`.trim(), ".");
  return !OVER.has(status) && detail && !approvals?.length && h("p.run-why", {}, visible(detail));
}

/** @type {(run: any, attempts: number) => any[]} */
function factsOf(run, attempts) {
  const fact = (/** @type {string} */ name, /** @type {any} */ text) => text && h("div", {}, h("dt", {}, name), h("dd", {}, text));
  const { input_tokens: read = 0, output_tokens: written = 0 } = run.usage ?? {};
  return [fact("cost", run.cost_usd && cost(run.cost_usd)), fact("tokens", run.usage && `${count(read)} in, ${count(written)} out`), fact("attempt", attempts && count(attempts)), fact("model", run.model && visible(run.model)), fact("for", visible(ownerOf(run.principal))), fact("accepted", exactly(run.created_at))];
}
