import { fill, h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { errorWords, stateWords } from "../../state/words.js";
import { Notice } from "../../ui/Notice.js";

/** A run that this one started: a line, below which its own story unfolds. */
export class ChildItem {
  #run = null;

  constructor(story, again, words) {
    Object.assign(this, { story, words });
    this.line = h("summary.passing");
    this.place = h("div");
    this.element = h("details.child-run", { ontoggle: () => this.#toggle() }, this.line, this.place);
  }

  update(item) {
    this.item = item;
    fill(this.line, icon(item.status), h("span", {}, `${visible(this.words.nameOf(item.agent))} was asked`), h("span.faint", {}, stateWords(item.status)));
  }

  async #toggle() {
    try {
      const { ChildRun } = await import("./ChildRun.js");
      this.#run ??= new ChildRun(this.item, this.story, this.words);
      fill(this.place, this.#run.element);
      this.#run.look();
    } catch (error) {
      fill(this.place, Notice({ title: "It could not be read", text: errorWords(error) }));
    }
  }
}
