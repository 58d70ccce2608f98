import { fill, h, icon } from "../dom/h.js";
import { visible } from "../dom/visible.js";

/** A run that this one started: a line, below which its own story unfolds. */
export class ChildItem {
  #run = null;

  constructor() {
    this.line = h("summary.passing");
    this.element = h("details.child-run", { ontoggle: () => this.#toggle() }, this.line);
  }

  update(item) {
    this.item = item;
    fill(this.line, icon(item.status), h("span", {}, `${visible(item.agent)} was asked`), h("span.faint", {}, item.status));
  }

  async #toggle() {
    const { ChildRun } = await import("./ChildRun.js");
    this.#run ??= new ChildRun(this.item);
    this.element.append(this.#run.element);
    this.#run.follow(this.element.open);
  }
}
