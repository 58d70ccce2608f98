import { h } from "../dom/h.js";

const KEYS = [
  ["/", "Search threads"], ["n", "New conversation"], ["c", "Write"], ["Ctrl  Enter", "Give the text to the open run"], ["j  k", "Next and previous run on the board"], ["Enter", "Open the run"], ["x", "Choose the run, in the table"],
  ["b", "The board alone"], ["s", "Stop the run"], ["a  e  r", "Go to approve, edit, reject, or to what is asked"], ["Esc", "Stop typing, close"], ["?", "These keys"],
];

/** The list of keys, as a dialog. */
export class Shortcuts {
  constructor() {
    const rows = KEYS.map(([keys, what]) => [h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)]);
    this.element = h("dialog.keys", { "aria-label": "Keyboard", onclick: (event) => event.target === this.element && this.element.close() },
      h("h2", {}, "Keyboard"), h("dl", {}, rows), h("form", { method: "dialog" }, h("button.btn", {}, "Close")));
  }

  toggle() {
    if (this.element.open) this.element.close();
    else this.element.showModal();
  }
}
