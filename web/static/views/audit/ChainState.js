// @ts-check
import { count } from "../../dom/format.js";
import { fill, h, icon } from "../../dom/h.js";
import { verifyAudit } from "../../services/admin.js";
import { errorWords } from "../../state/words.js";

/** Whether the log's digests fit, computed again when a person asks: a long log takes a while. */
export class ChainState {
  constructor() {
    this.words = h("span", { role: "status" }, "Not verified here yet");
    this.button = /** @type {HTMLButtonElement} */ (h("button.btn", { type: "button", onclick: () => this.#verify() }, "Verify"));
    this.element = h("div.chain.row", { title: "Computes each entry's digest again. `./callboard audit verify` also compares with the heads in log files, which shows a log that was written anew as a whole." }, this.words, this.button);
  }

  async #verify() {
    this.button.disabled = true;
    fill(this.words, "Computing the digests");
    try {
      const { is_whole: isWhole, entries, broken, problem } = await verifyAudit();
      this.element.dataset.whole = String(isWhole);
      if (isWhole) fill(this.words, icon("succeeded"), ` The chain is whole: ${count(entries)} entries`);
      else fill(this.words, icon("failed"), ` Broken at entry ${count(broken)}: ${problem}`);
    } catch (/** @type {any} */ error) {
      fill(this.words, errorWords(error));
    } finally {
      this.button.disabled = false;
    }
  }
}
