// @ts-check
import { plural } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { newKey, retryRun, stopRun } from "../../services/api.js";
import { OVER } from "../../state/story.js";

/** Calls at the same time: a server has to answer others, too. */
const AT_ONCE = 4;

/** What can be done with the chosen runs, in place of the filter. */
export class BulkBar {
  /** @param {{chosen: import("../../dom/live.js").Signal<Set<string>>, board: any, runs: () => import("../../ui/Table.js").Row[]}} given */
  constructor({ chosen, board, runs }) {
    Object.assign(this, { chosen, board, runs });
    this.chosen = chosen;
    this.runs = runs;
    const outcome = signal("");
    this.words = h("span", { role: "status" });
    this.stop = h("button.btn", { type: "button", onclick: () => this.#all("Stop", isOpen, ({ run_id }) => stopRun(run_id), outcome) }, "Stop");
    this.retry = h("button.btn", { type: "button", onclick: () => this.#all("Retry", isLost, ({ run_id }) => retryRun(run_id, newKey()), outcome) }, "Retry");
    this.clear = h("button.quiet", { type: "button", onclick: () => { chosen.value = new Set(); } }, "None");
    this.element = h("div.chosen", {}, this.words, this.stop, this.retry, this.clear);
    watch(() => {
      const number = chosen.value.size;
      board.changes.value;
      this.element.classList.toggle("is-on", number > 0 || Boolean(outcome.value));
      say(this.words, outcome.value || `${plural(number, "run")} chosen`);
      for (const [button, isFit] of /** @type {[HTMLElement, (run: any) => boolean][]} */ ([[this.stop, isOpen], [this.retry, isLost]])) button.hidden = !this.#chosenRuns().some(isFit);
      this.clear.hidden = !number;
    });
  }

  #chosenRuns() {
    const keys = this.chosen.peek();
    return this.runs().filter(({ key }) => keys.has(key)).map(({ run }) => run);
  }

  /** @type {(verb: string, isFit: (run: any) => boolean, call: (run: any) => Promise<any>, outcome: any) => Promise<void>} */
  async #all(verb, isFit, call, outcome) {
    const runs = this.#chosenRuns().filter(isFit);
    /** @type {string[]} */
    const problems = [];
    let done = 0;
    const queue = [...runs];
    const worker = async () => {
      for (let run = queue.shift(); run; run = queue.shift()) {
        await call(run).catch((error) => problems.push(error.message));
        outcome.value = `${verb}: ${++done} of ${runs.length}`;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    outcome.value = problems.length ? `${verb}: ${plural(problems.length, "run")} of ${runs.length} refused. ${problems[0]}` : "";
    if (!problems.length) this.chosen.value = new Set();
  }
}

/** @type {(run: any) => boolean} */
function isOpen({ status }) {
  return !OVER.has(status);
}

/** @type {(run: any) => boolean} */
function isLost({ status }) {
  return OVER.has(status) && status !== "succeeded";
}
