// @ts-check
import { fill, h, icon } from "../../dom/h.js";
import { duration } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { Notice, sentence } from "../../ui/Notice.js";

/** @typedef {import("../../state/story.js").ErrorItem} Item */

/** An error of the run: one line when the run continued, a notice with the remedy when the error ended it. */
export class ErrorItem {
  constructor(/** @type {import("../../state/story.js").Story} */ story, /** @type {(() => void) | null} */ again) {
    this.story = story;
    this.again = again;
    this.element = h("div.error-item");
  }

  update(/** @type {Item} */ item) {
    const final = !item.retryable || this.story.end?.status === "failed" || this.story.end?.status === "dead";
    const last = this.story.items.findLast((other) => other.kind === "error") === item;
    fill(this.element, final && last ? Notice({ text: item.message ?? item.code, code: item.code, actions: this.story.end && this.again ? [["Try again", this.again]] : [] }) : passing(item));
  }
}

function passing(/** @type {Item} */ item) {
  const again = item.to_model ? `asking ${visible(item.to_model)} instead` : item.retry_in_ms !== undefined ? `trying again in ${duration(item.retry_in_ms)}` : item.retryable ? "trying again" : "";
  const which = item.tries ? `${item.tries} tries failed` : item.attempt ? `attempt ${item.attempt}` : "";
  const words = visible(sentence(item.message ?? item.code));
  return h("p.passing", { title: `${words} (${item.code})` }, icon("again"), h("span.clip", {}, words), h("span.faint", {}, [which, again].filter(Boolean).join(" · ")));
}
