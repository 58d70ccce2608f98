// @ts-check
import { Notice } from "../../ui/Notice.js";
import { copyButton } from "../../dom/copyButton.js";
import { fill, h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { createKey } from "../../services/admin.js";
import { bodyOf, KEY_FORM } from "../../state/keys.js";
import { errorWords } from "../../state/words.js";
import { Form } from "../../ui/Form.js";

/** The form of a new key; its text is shown once, until the person has put it where it is needed. */
export class NewKey {
  /** @param {{onCreated: () => void}} given */
  constructor({ onCreated }) {
    this.onCreated = onCreated;
    this.place = h("div.new-key");
    this.problem = h("div", { role: "alert" });
    this.element = this.place;
    this.#rest();
  }

  #rest() {
    fill(this.place, h("button.btn.go", { type: "button", onclick: () => this.#ask() }, icon("plus"), "New key"));
  }

  #ask() {
    const form = new Form({ form: KEY_FORM, words: ["Create the key", "Back"], onAnswer: (/** @type {any} */ values) => this.#create(values, form), onDecline: () => this.#rest() });
    fill(this.problem);
    fill(this.place, h("section.key-card", { "aria-label": "New key" }, h("h2", {}, "A new key"), form.element, this.problem));
    form.focus();
  }

  /** @type {(values: any, form: any) => Promise<void>} */
  async #create(values, form) {
    form.element.setAttribute("aria-busy", "true");
    try {
      this.#show(await createKey(bodyOf(values)));
      this.onCreated();
    } catch (/** @type {any} */ error) {
      fill(this.problem, Notice({ title: "Not created", text: errorWords(error), code: error.code }));
    } finally {
      form.element.removeAttribute("aria-busy");
    }
  }

  #show(/** @type {{key: string, name: string}} */ { key, name }) {
    const done = h("button.btn", { type: "button", onclick: () => this.#rest() }, "I have it: show it no more");
    fill(this.place, h("section.key-card", { "aria-label": "The new key" }, h("h2", {}, "The key of ", visible(name)), h("p", {}, "It is shown this once: the server keeps a digest of it alone. Put it where the program reads its secrets."), h("div.key-text", {}, h("code", { tabindex: "0" }, key), copyButton(() => key, "Copy the key")), h("pre", {}, `curl -H "Authorization: Bearer $CALLBOARD_KEY" ${location.origin}/v1/me`), done));
    done.focus();
  }
}
