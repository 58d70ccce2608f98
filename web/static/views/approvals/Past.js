// @ts-check
import { fill, h } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { listDecided } from "../../services/approvals.js";
import { resource } from "../../services/resource.js";
import { decidedWords, lasting } from "../../state/inbox.js";

const MOST_WORDS = 4;

/** How calls of a tool were decided lately: a mark for each, the newest last, and the words of those that were rejected. */
export class Past {
  constructor(/** @type {string} */ tool) {
    this.element = h("section.block", {});
    const { state } = resource((abort) => listDecided(tool, abort));
    watch(() => {
      const { tools: [counts] = [], latest = [] } = /** @type {any} */ (state.value.value ?? {});
      this.element.hidden = !counts;
      if (counts) fill(this.element, h("h3.caps", {}, "How such calls were decided ", h("small", {}, "30 days")), strip(latest, decidedWords(counts)), h("p.soft", {}, decidedWords(counts), wordsOf(latest), counts.median_ms === undefined ? "." : `. Usually answered after ${lasting(counts.median_ms)}.`));
    });
  }
}

/** @type {(latest: any[], words: string) => HTMLElement} */
function strip(latest, words) {
  const kindOf = (/** @type {any} */ { decision, by, is_changed: isChanged }) => (by === "expiry" ? "expired" : decision !== "approve" ? "rejected" : isChanged ? "changed" : "approved");
  return h("div.strip", { role: "img", "aria-label": words }, [...latest].reverse().map((entry) => h(`i.is-${kindOf(entry)}`)));
}

/** @type {(latest: any[]) => any} */
function wordsOf(latest) {
  const said = latest.filter(({ message }) => message).slice(0, MOST_WORDS);
  return said.map(({ message, run_id: runId }, i) => [i ? ", " : ": ", h("a.quiet", { href: addressOf("/run/:runId", { runId }), dir: "auto" }, `“${visible(message.slice(0, 80))}”`)]);
}
