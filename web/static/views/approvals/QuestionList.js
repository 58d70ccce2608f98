// @ts-check
import { exactly } from "../../dom/format.js";
import { h, icon, say } from "../../dom/h.js";
import { each, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { expiryOf, isJoinable, lasting, sentenceOf } from "../../state/inbox.js";
import { ownerOf } from "../../state/me.js";

const KINDS = /** @type {Record<string, string>} */ ({ call: "before a call", unknown: "outcome unknown", arguments: "arguments are missing", input: "a question" });

/** The open questions in their groups; each leads to its address, and calls of one tool can be chosen together. */
export class QuestionList {
  /** @param {{groups: () => import("../../state/inbox.js").Group[], current: () => string, chosen: any, app: any, clock: any}} given */
  constructor({ groups, current, chosen, app, clock }) {
    this.chosen = chosen;
    this.groups = groups;
    this.app = app;
    this.clock = clock;
    this.current = current;
    this.element = h("div.scroll");
    each(this.element, groups, ({ key }) => key, (group) => this.#group(group));
  }

  /** Choose a question's call, or choose it no more; a call of another tool begins anew. */
  toggle(/** @type {any} */ question) {
    if (!question || !isJoinable(question)) return;
    const all = this.groups().flatMap(({ questions }) => questions);
    const kept = [...this.chosen.peek()].filter((id) => all.some((each) => each.approval_id === id && each.name === question.name));
    const next = new Set(kept);
    if (!next.delete(question.approval_id)) next.add(question.approval_id);
    this.chosen.value = next;
  }

  /** Move the focus to a question's row. */
  focus(/** @type {string} */ id) {
    const link = /** @type {HTMLElement | null} */ (this.element.querySelector(`[data-id="${CSS.escape(id)}"] > a`));
    link?.focus();
    link?.scrollIntoView({ block: "nearest" });
  }

  #group(/** @type {import("../../dom/live.js").Signal<import("../../state/inbox.js").Group>} */ group) {
    const { isTool } = group.peek();
    const title = h(isTool ? "code" : "b"), note = h("span.soft");
    const together = h("button.btn.sm", { type: "button", onclick: () => { this.chosen.value = new Set(group.peek().questions.filter(isJoinable).map(({ approval_id: id }) => id)); } });
    const list = h("ul");
    watch(() => {
      say(title, visible(group.value.title));
      say(note, group.value.note);
      const number = group.value.questions.filter(isJoinable).length;
      together.hidden = !isTool || number < 2;
      say(together, `Review ${number} together`);
    });
    each(list, () => group.value.questions, ({ approval_id: id }) => id, (row) => this.#row(row));
    return h("section.group", {}, h("h2", {}, title, note, together), list);
  }

  #row(/** @type {import("../../dom/live.js").Signal<any>} */ row) {
    const question = row.peek();
    const id = question.approval_id, words = sentenceOf(question);
    const box = h("input", { type: "checkbox", "aria-label": `Choose ${question.name}: ${visible(words)}`, onchange: () => this.toggle(row.peek()) });
    const age = h("time", { title: exactly(question.asked_at) }), end = h("span.end"), two = h("i.two"), who = h("span.clip", {}, visible(`${this.app.nameOf(question.agent)}, for ${ownerOf(question.principal)}`));
    const link = h("a", { href: addressOf("/approvals/:approvalId", { approvalId: id }) }, h("span.l1", {}, icon(question.kind === "unknown" ? "unknown" : question.kind === "call" ? "waiting" : "menu"), h("span.offscreen", {}, KINDS[question.kind] ?? ""), h("b.clip", { dir: "auto" }, visible(words)), age), h("span.l2", {}, h("code", {}, visible(question.name)), two, who, end));
    const element = h("li.q", { dataset: { id } }, box, link);
    watch(() => {
      const now = this.clock.value, { words: left, isSoon } = expiryOf(row.value, now);
      say(age, lasting(now - Date.parse(question.asked_at)));
      say(end, left);
      end.title = isSoon ? "It is open for less than an hour" : "For so long it is open still";
      element.classList.toggle("is-soon", isSoon);
    });
    watch(() => {
      const { approvers, approved_by: by = [] } = row.value;
      two.hidden = !(approvers > 1);
      say(two, `${by.length} of ${approvers}`);
      two.title = `${by.length} of ${approvers} persons have approved`;
      box.hidden = !isJoinable(row.value);
      box.checked = this.chosen.value.has(id);
      if (this.current() === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    return element;
  }
}
