// @ts-check
import { Notice } from "../../ui/Notice.js";
import { ago, exactly } from "../../dom/format.js";
import { fill, h, icon } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { listDecided, listQuestions } from "../../services/approvals.js";
import { resource } from "../../services/resource.js";
import { MARKS, decidedWords, lasting, pastWords, sentenceOf } from "../../state/inbox.js";
import { isMe } from "../../state/me.js";
import { byWords, errorWords } from "../../state/words.js";

const PAGE = 50;
const REFRESH_MS = 15_000;

/** What was answered: by tool within 30 days, and the questions, those answered last first. */
export class Answered {
  /** @param {{app: any, clock: any}} given */
  constructor({ app, clock }) {
    const pages = signal(1);
    const tools = h("section.by-tool", { hidden: true }), table = h("section.answered"), note = h("div.view-note", { role: "status" });
    const decided = resource((abort) => listDecided("", abort), { everyMs: REFRESH_MS });
    const answered = resource((abort) => readPages(pages.peek(), abort), { everyMs: REFRESH_MS });
    const more = () => { pages.value += 1; answered.refresh(); };
    watch(() => {
      const list = decided.state.value.value?.tools ?? [];
      tools.hidden = !list.length;
      fill(tools, h("h2.caps", {}, "Calls decided in 30 days, by tool"), h("ul", {}, list.map((/** @type {any} */ tool) => h("li", {}, h("code", {}, visible(tool.name)), h("span", {}, decidedWords(tool)), h("span.faint", {}, tool.median_ms === undefined ? "" : `usually after ${lasting(tool.median_ms)}`)))));
    });
    let shown = "";
    watch(() => {
      const { value, error } = answered.state.value;
      fill(note, error ? Notice({ text: errorWords(error), code: error.code }) : !value ? h("p.faint", {}, "Reading the answers") : !value.list.length && h("p", {}, "No question was answered yet."));
      const key = JSON.stringify([value?.list.map((/** @type {any} */ each) => each.approval_id), value?.next]);
      if (!value?.list.length || key === shown) return;
      shown = key;
      fill(table, h("h2.caps", {}, "Answers"), h("ul", {}, value.list.map((/** @type {any} */ question) => answeredRow(question, app, clock))), value.next && h("button.btn", { type: "button", onclick: more }, "Show earlier answers"));
    });
    this.element = h("div.view-scroll.pad", { tabindex: "-1" }, tools, table, note);
  }
}

/** @type {(number: number, abort: AbortSignal) => Promise<{list: any[], next?: string}>} */
async function readPages(number, abort) {
  const list = [];
  let next = /** @type {string | undefined} */ (undefined);
  for (let i = 0; i < number && (i === 0 || next); i += 1) {
    const page = await listQuestions({ state: "answered", limit: PAGE, ...(next ? { before: next } : {}) }, abort);
    list.push(...page.approvals);
    next = page.next;
  }
  return { list, next };
}

/** @type {(question: any, app: any, clock: any) => HTMLElement} */
function answeredRow(question, app, clock) {
  const { decision, by, at, after_ms: waited, message, changed } = question.answer;
  const how = changed?.length && decision === "approve" ? ` with other ${changed.map((/** @type {string} */ name) => visible(name)).join(", ")}` : "";
  return h("li.answer-row", {},
    h("p.l1", {}, icon(MARKS[decision] ?? "succeeded"), h("a.clip", { href: addressOf("/run/:runId", { runId: question.run_id }), dir: "auto" }, visible(sentenceOf(question))), h("time", { title: exactly(at) }, ago(at, clock.peek()))),
    h("p.l2", {}, h("code", {}, visible(question.name)), h("span", {}, h("b", {}, pastWords(decision) + how), ` ${byWords({ by: visible(by), mine: isMe(by) })} after ${lasting(waited)}`), h("span.faint", {}, visible(app.nameOf(question.agent)))),
    message && h("p.l3", { dir: "auto" }, `“${visible(message)}”`));
}
