// @ts-check
import { plural } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { newKey, retryRun, stopRun } from "../../services/api.js";
import { mayStop } from "../../state/me.js";
import { OVER } from "../../state/story.js";
import { confirmed } from "../../ui/Confirm.js";

/** @typedef {{words: string, href?: string}} Outcome */
/** @typedef {{verb: string, past: string, isFit: (run: any) => boolean, call: (run: any) => Promise<any>, query: (since: string) => Record<string, string>}} Deed */

/** Calls at the same time: a server has to answer others, too. */
const AT_ONCE = 4;
/** The clocks of browser and server differ. */
const MARGIN_MS = 2000;

/** @type {Deed[]} `query` names the runs that it leads to. */
const DEEDS = [
  { verb: "Stop", past: "stopped", isFit: isOpen, call: ({ run_id }) => stopRun(run_id), query: () => ({ status: "cancelled" }) },
  { verb: "Retry", past: "retried", isFit: isLost, call: ({ run_id }) => retryRun(run_id, newKey()), query: (since) => ({ since }) },
];

/** What can be done with the chosen runs, beside the filter; several runs are touched once a person has agreed. */
export class BulkBar {
  /** @param {{chosen: import("../../dom/live.js").Signal<Set<string>>, board: any, runs: () => import("../../ui/Table.js").Row[]}} given */
  constructor({ chosen, board, runs }) {
    this.chosen = chosen;
    this.runs = runs;
    this.outcome = signal(/** @type {Outcome | null} */ (null));
    this.isBusy = signal(false);
    const words = h("span", { role: "status" }), way = h("a.quiet", {}, "Show them");
    const buttons = DEEDS.map((deed) => ({ deed, button: h("button.btn", { type: "button", onclick: () => this.#all(deed) }, deed.verb) }));
    const none = h("button.quiet", { type: "button", onclick: () => { chosen.value = new Set(); } }, "None");
    this.element = h("div.chosen", {}, words, way, buttons.map(({ button }) => button), none);
    watch(() => {
      const number = chosen.value.size, outcome = this.outcome.value;
      board.changes.value;
      this.element.classList.toggle("is-on", number > 0 || Boolean(outcome));
      say(words, outcome?.words ?? `${plural(number, "run")} chosen`);
      way.hidden = !outcome?.href;
      way.setAttribute("href", outcome?.href ?? "");
      for (const { deed, button } of buttons) Object.assign(button, { hidden: !this.#chosenRuns().some(deed.isFit), disabled: this.isBusy.value });
      none.hidden = !number;
    });
    watch(() => { if (chosen.value.size && !this.isBusy.peek()) this.outcome.value = null; });
  }

  /** Say no more what was done. */
  forget() {
    this.outcome.value = null;
  }

  #chosenRuns() {
    const keys = this.chosen.peek();
    return this.runs().filter(({ key }) => keys.has(key)).map(({ run }) => run);
  }

  async #all(/** @type {Deed} */ { verb, past, isFit, call, query }) {
    const runs = this.#chosenRuns().filter(isFit), words = `${verb} ${plural(runs.length, "run")}`;
    if (runs.length > 1 && !(await confirmed({ title: `${words}?`, text: "What they have recorded is kept.", go: words }))) return;
    this.isBusy.value = true;
    const queue = [...runs], since = new Date(Date.now() - MARGIN_MS).toISOString();
    /** @type {string[]} */
    const problems = [];
    let done = 0;
    const worker = async () => {
      for (let run = queue.shift(); run; run = queue.shift()) {
        await call(run).catch((error) => problems.push(error.message));
        this.outcome.value = { words: `${verb}: ${++done} of ${runs.length}` };
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    this.isBusy.value = false;
    if (problems.length) return void (this.outcome.value = { words: `${verb}: ${plural(problems.length, "run")} of ${runs.length} refused. ${problems[0]}` });
    this.chosen.value = new Set();
    this.outcome.value = { words: `${plural(runs.length, "run")} ${past}`, href: addressOf("/board", {}, query(since)) };
  }
}

/** @type {(run: any) => boolean} */
function isOpen({ status, principal }) {
  return !OVER.has(status) && mayStop(principal);
}

/** @type {(run: any) => boolean} */
function isLost({ status }) {
  return OVER.has(status) && status !== "succeeded";
}
