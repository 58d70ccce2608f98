// @ts-check
import { h } from "../../dom/h.js";

const KEYS = [
  ["Ctrl  K", "Search, go to"], ["/", "Search threads; on the board, filter the runs; in other views, search, go to"], ["n", "New conversation"], ["c", "Write"], ["Ctrl  Enter", "Give the text to the open run"], ["j  k", "Next and previous run, or question"], ["Enter", "Open the run"], ["x", "Choose the run or the question"],
  ["b", "The board alone"], ["s", "Stop the run"], ["a  e  r", "Go to approve, edit, reject, or to what is asked"], ["p  o", "Pass a question on, open its run"], ["Esc", "Stop typing, close"], ["?", "These keys"],
];
/** @type {HTMLDialogElement | null} */
let dialog = null;

/** Show the list of keys as a dialog, or close it. */
export function toggleShortcuts() {
  if (!dialog) {
    const rows = KEYS.map(([keys, what]) => [h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)]);
    dialog = h("dialog.keys", { "aria-label": "Keyboard", onclick: (/** @type {Event} */ event) => event.target === dialog && dialog?.close() },
      h("h2", {}, "Keyboard"), h("dl", {}, rows), h("form", { method: "dialog" }, h("button.btn", {}, "Close")));
    document.body.append(/** @type {HTMLDialogElement} */ (dialog));
  }
  if (dialog?.open) dialog.close();
  else dialog?.showModal();
}
