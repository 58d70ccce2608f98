// @ts-check
import { fill, h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { errorWords, stateWords } from "../../state/words.js";
import { Notice } from "../../ui/Notice.js";

/** @typedef {import("../../state/story.js").ChildItem} Item */
/** @typedef {Pick<import("./RunTurn.js").TurnContext, "nameOf" | "fleet">} Words */

/** A run that this one started: a line, below which its own story unfolds. */
export class ChildItem {
  /** @type {import("./ChildRun.js").ChildRun | null} */
  #run = null;

  /** @param {import("../../state/story.js").Story} story @param {unknown} again @param {Words} words */
  constructor(story, again, words) {
    this.story = story;
    this.words = words;
    /** @type {Item} */
    this.item = /** @type {any} */ (null);
    this.line = h("summary.passing");
    this.place = h("div");
    this.element = h("details.child-run", { ontoggle: () => this.#toggle() }, this.line, this.place);
  }

  update(/** @type {Item} */ item) {
    this.item = item;
    fill(this.line, icon(item.status), h("span", {}, `${visible(this.words.nameOf(item.agent))} was asked`), h("span.faint", {}, stateWords(item.status)));
  }

  async #toggle() {
    try {
      const { ChildRun } = await import("./ChildRun.js");
      this.#run ??= new ChildRun(this.item, this.story, this.words);
      fill(this.place, this.#run.element);
      this.#run.look();
    } catch (/** @type {any} */ error) {
      fill(this.place, Notice({ title: "It could not be read", text: errorWords(error) }));
    }
  }
}
