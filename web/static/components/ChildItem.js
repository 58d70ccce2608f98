import { fill, h, icon } from "../dom/h.js";
import { visible } from "../dom/visible.js";

/** A run that this run started: one line. */
export class ChildItem {
  constructor() {
    this.element = h("p.passing");
  }

  update(item) {
    fill(this.element, icon(item.status), h("span", {}, `${visible(item.agent)} was asked`), h("span.faint", {}, item.status));
  }
}
