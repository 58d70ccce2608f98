// @ts-check
// The question that a link is for, over the page: opening shows it, and only an answer uses the link up.

import { fill, h } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { threadHash } from "../../router.js";
import { openLink, sendByLink } from "../../services/api.js";
import { ownerOf, threadKey } from "../../state/me.js";
import { errorWords } from "../../state/words.js";
import { ConfirmInline } from "../story/ConfirmInline.js";
import { Notice } from "../../ui/Notice.js";

/** @type {Record<string, string>} */
const TITLES = { link_not_yours: "This link is another person's", link_over: "This link is over", link_unknown: "There is no such link" };

/** Shows the question of a link to its person, or why the link is not valid. */
export class LinkView {
  #token = "";

  constructor() {
    this.element = h("section.link-view", { hidden: true, tabindex: "-1", "aria-labelledby": "link-title" });
  }

  /** Show the question that the link with this token is for; without a token show nothing. */
  async open(/** @type {string | undefined} */ token) {
    this.#token = token ?? "";
    this.element.hidden = !token;
    if (!token) return;
    this.#put("A question for you", h("p.faint", {}, "Opening the link…"));
    try {
      const asked = await openLink(token);
      if (this.#token === token) this.#show(asked, token);
    } catch (/** @type {any} */ error) {
      if (this.#token === token) this.#put(TITLES[error.code] ?? "The link cannot be opened", Notice({ text: errorWords(error), code: error.code }));
    }
  }

  /** @type {(asked: any, token: string) => void} */
  #show(asked, token) {
    const card = new ConfirmInline({ run_id: asked.run_id, principal: asked.principal }, undefined, { send: sendByLink(token) });
    const { kind, input_schema: schema, ...fields } = asked;
    card.update({ ...fields, kind: "approval", ask: kind, input_schema: schema, form: asked.decisions.includes("answer") ? schema : undefined });
    const whose = ownerOf(asked.principal) === "you" ? "your run" : `a run of ${visible(asked.principal)}`;
    const conversation = threadHash(threadKey(asked.thread_id, asked.principal), asked.run_id);
    this.#put("A question for you", h("p", {}, `${visible(asked.agent)} asks it in ${whose}. The link is valid for one answer.`), card.element, h("p", {}, h("a.link", { href: conversation }, "Open the conversation")));
  }

  #put(/** @type {string} */ title, /** @type {HTMLElement[]} */ ...children) {
    fill(this.element, h("div.link-card", {}, h("p.brand", {}, "Callboard"), h("h1", { id: "link-title" }, title), children, h("p", {}, h("a.link", { href: "#/" }, "To the page"))));
    this.element.focus();
  }
}
