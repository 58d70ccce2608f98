// @ts-check
import { Notice } from "../../ui/Notice.js";
import { copyButton } from "../../dom/copyButton.js";
import { deadline } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { makeLink } from "../../services/approvals.js";
import { errorWords } from "../../state/words.js";

/** A form that makes a link to the question for one person, to be sent to that person. */
export class PassOn {
  /** @param {{question: any, onClose: () => void}} given */
  constructor({ question, onClose }) {
    this.question = question;
    this.onClose = onClose;
    this.field = h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", "aria-describedby": "pass-on-hint" });
    this.result = h("div", { role: "status" });
    this.element = h("form.pass-on", { novalidate: true, onsubmit: (/** @type {Event} */ event) => this.#make(event), onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && (event.preventDefault(), onClose()) },
      h("label", {}, "Pass on to ", this.field), h("button.btn", { type: "submit" }, "Make a link"), h("button.btn", { type: "button", onclick: onClose }, "Close"),
      h("p.hint", { id: "pass-on-hint" }, "The name by which that person is signed in. The link shows the question to this person alone, and takes one answer; it grants no right to answer."), this.result);
  }

  focus() {
    this.field.focus();
  }

  async #make(/** @type {Event} */ event) {
    event.preventDefault();
    const name = this.field.value.trim();
    if (!name) return this.field.focus();
    try {
      const { run_id: runId, approval_id: approvalId } = this.question;
      const { url, principal, expires_at: end } = await makeLink(runId, approvalId, name);
      fill(this.result, h("p", {}, "A link for ", h("b", {}, visible(principal)), `, valid until ${deadline(end)}:`), h("p.pass-link", {}, h("input", { type: "text", readonly: true, value: url, "aria-label": "The link", onfocus: (/** @type {any} */ focused) => focused.target.select() }), copyButton(() => url, "Copy the link")));
    } catch (/** @type {any} */ error) {
      fill(this.result, Notice({ text: errorWords(error), code: error.code }));
    }
  }
}
