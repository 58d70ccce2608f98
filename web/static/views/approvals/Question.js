// @ts-check
// One question in full: what would happen, why a person is asked, why the agent wants it, and the answers.

import { ago, exactly } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf, threadHash } from "../../router.js";
import { ownerOf, threadKey } from "../../state/me.js";
import { Answering } from "./Answering.js";
import { Past } from "./Past.js";
import { Story } from "./Story.js";

/** The pane of an open question; it is made once for each, so that no typing is lost. */
export class Question {
  /** @param {{row: import("../../dom/live.js").Signal<any>, app: any, clock: any, onAnswer: (question: any, answer: any) => void}} given */
  constructor({ row, app, clock, onAnswer }) {
    const question = row.peek().question;
    const parts = new Answering({ row: () => row.value.question, clock, onAnswer: (answer) => onAnswer(question, answer) });
    this.question = question;
    this.press = (/** @type {string} */ key) => parts.press(key);
    this.element = h("section.right", { "aria-label": "The chosen question", dataset: { question: question.approval_id } },
      h("article.detail", { tabindex: "0", role: "region", "aria-label": "The question" }, h("a.back.quiet", { href: "#/approvals" }, "All open questions"), this.#head(question, parts.head, app, clock), parts.several, parts.body, parts.why, new Story(question).element, question.kind === "call" && new Past(question.name).element, parts.until),
      parts.foot);
  }

  /** @param {any} question @param {any[]} head @param {any} app @param {any} clock */
  #head(question, [mark, ...head], app, clock) {
    const time = h("span.faint", { title: exactly(question.asked_at) });
    watch(() => say(time, ago(question.asked_at, clock.value)));
    return h("header", {},
      h("p.who-asks", {}, mark, h("span", {}, h("b", {}, visible(app.nameOf(question.agent))), " asks, for ", h("b", {}, visible(ownerOf(question.principal)))), time,
        h("span.links", {}, h("a.quiet", { href: threadHash(threadKey(question.thread_id, question.principal), question.run_id) }, "Open the conversation"), h("a.quiet", { href: addressOf("/run/:runId", { runId: question.run_id }), dataset: { key: "run" } }, "Open the run"))),
      head);
  }
}
