// @ts-check
import { h } from "../dom/h.js";

/**
 * Ask before something is done; resolves to the values of the form's fields, or to null where the person goes back.
 *
 * @param {{title: string, text: any, go: string, fields?: HTMLElement[]}} given `fields`: elements with named inputs
 * @returns {Promise<Record<string, string> | null>}
 */
export function confirmed({ title, text, go, fields = [] }) {
  return new Promise((resolve) => {
    const done = (/** @type {Record<string, string> | null} */ answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const form = h("form", { onsubmit: (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      done(/** @type {Record<string, string>} */ (Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)))));
    } }, h("h2", { id: "confirm-title" }, title), h("p", {}, text), fields, h("div.row", {}, h("button.btn.go", { type: "submit" }, go), h("button.btn", { type: "button", onclick: () => done(null) }, "Back")));
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog.confirm", { "aria-labelledby": "confirm-title" }, form));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      done(null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
