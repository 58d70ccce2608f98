// @ts-check
// One line above the calls of a run that wait for an approval: approve or reject all that are shown below it.

import { fill, h, icon } from "../../dom/h.js";
import { sendSeveral } from "../../services/api.js";
import { mayDecide } from "../../state/me.js";
import { isOpen } from "../../state/story.js";
import { ErrorNotice } from "../../ui/Notice.js";

/** @typedef {[item: import("../../state/story.js").ApprovalItem, card: import("./ConfirmInline.js").ConfirmInline]} Pair */

/** The line; it names the calls by the digests that their cards show, and is there for two or more of them only. */
export class CallBatch {
  /** @type {Pair[]} */
  #pairs = [];
  /** @type {Pair[]} */
  #cards = [];
  #shown = "";
  #isBusy = false;
  /** @type {import("../../state/story.js").Failure | null} */
  #error = null;

  constructor(/** @type {import("../../state/story.js").Story} */ story) {
    this.story = story;
    this.element = h("div.batch", { role: "group", tabindex: "-1", hidden: true });
  }

  /** Offer the calls among these [item, card] pairs. Those whose answer the person is writing are left to their card. */
  update(/** @type {Pair[]} */ pairs) {
    this.#pairs = pairs;
    if (this.#isBusy) return; // what is shown is what was sent
    this.#cards = mayDecide(this.story.principal) ? pairs.filter(([item, card]) => mayJoin(item) && card?.isUntouched()) : [];
    const key = this.#cards.map(([item]) => item.approval_id).join();
    if (key === this.#shown) return;
    this.#shown = key;
    this.#error = null;
    this.#paint();
  }

  #paint() {
    // The focus goes to the line, not to a new button: the same press must not decide about other calls than those read.
    const held = this.element.contains(document.activeElement);
    const cards = this.#cards;
    const words = `${cards.length} calls wait`;
    this.element.hidden = cards.length < 2;
    this.element.setAttribute("aria-label", words);
    const choice = (/** @type {string} */ decision, /** @type {string} */ look, /** @type {string} */ label) => h(`button.${look}`, { type: "button", dataset: { key: `all-${decision}` }, onclick: () => this.#decide(decision, cards) }, label);
    fill(this.element,
      h("span.batch-words", {}, icon("waiting"), h("span", {}, words)),
      h("div.row", {}, choice("approve", "btn", `Approve all ${cards.length}`), choice("reject", "btn", "Reject all")),
      this.#error && h("div.batch-error", { role: "alert" }, ErrorNotice(this.#error)));
    if (held && !this.element.hidden) this.element.focus();
  }

  async #decide(/** @type {string} */ decision, /** @type {Pair[]} */ cards) {
    const held = this.element.contains(document.activeElement);
    this.#busy(true);
    try {
      const answers = await sendSeveral(cards.map(([item]) => ({ run_id: this.story.run_id, approval_id: item.approval_id, digest: /** @type {string} */ (item.digest), decision })));
      answers.forEach((one, place) => cards[place][1].settle(one));
      if (held) cards[0][1].element.focus();
    } catch (/** @type {any} */ error) {
      this.#error = error;
      this.#paint();
    } finally {
      this.#busy(false);
      this.update(this.#pairs);
    }
  }

  #busy(/** @type {boolean} */ on) {
    this.#isBusy = on;
    if (on && this.element.contains(document.activeElement)) this.element.focus();
    this.element.setAttribute("aria-busy", String(on));
    for (const button of this.element.querySelectorAll("button")) button.disabled = on;
  }
}

// A call that several persons have to approve is looked at by itself.
function mayJoin(/** @type {import("../../state/story.js").ApprovalItem} */ item) {
  return isOpen(item) && item.digest && !item.form && item.decisions?.includes("approve") && !(/** @type {number} */ (item.approvers) > 1);
}
