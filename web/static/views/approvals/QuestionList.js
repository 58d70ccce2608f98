// @ts-check
import { Notice } from "../../ui/Notice.js";
import { exactly } from "../../dom/format.js";
import { h, icon, say } from "../../dom/h.js";
import { each, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { expiryOf, isJoinable, lasting, sentenceOf } from "../../state/inbox.js";
import { ownerOf } from "../../state/me.js";
import { errorWords } from "../../state/words.js";

const KINDS = /** @type {Record<string, string>} */ ({ call: "before a call", unknown: "outcome unknown", arguments: "arguments are missing", input: "a question" });

/** The open questions in their groups; each leads to its address, and calls of one tool can be chosen together. */
export class QuestionList {
  /** @param {{groups: () => import("../../state/inbox.js").Group[], current: () => string, choice: import("./Choice.js").Choice, address: (id: string) => string, app: any, clock: any}} given */
  constructor({ groups, current, choice, address, app, clock }) {
    this.address = address;
    this.choice = choice;
    this.groups = groups;
    this.app = app;
    this.clock = clock;
    this.current = current;
    this.element = h("div.scroll");
    each(this.element, groups, ({ key }) => key, (group) => this.#group(group));
  }

  /** Move the focus to a question's row. */
  focus(/** @type {string} */ id) {
    const link = this.#link(id);
    link?.focus();
    link?.scrollIntoView({ block: "nearest" });
  }

  /** Choose a call, or choose it no more, where there are others of its tool. */
  press(/** @type {string} */ id) {
    const box = /** @type {HTMLElement | null} */ (this.#link(id)?.previousElementSibling);
    if (box && !box.hidden) box.click();
  }

  // The row stays in sight above the answers that come then.
  #toggle(/** @type {any} */ question) {
    this.choice.toggle(question);
    const seen = () => this.#link(question.approval_id)?.scrollIntoView({ block: "nearest" });
    requestAnimationFrame(() => requestAnimationFrame(seen));
  }

  /** @returns {HTMLElement | null} */
  #link(/** @type {string} */ id) {
    return this.element.querySelector(`[data-id="${CSS.escape(id)}"] > a`);
  }

  #group(/** @type {import("../../dom/live.js").Signal<import("../../state/inbox.js").Group>} */ group) {
    const { isTool } = group.peek();
    const title = h(isTool ? "code" : "b"), note = h("span.soft");
    const together = h("button.btn.sm", { type: "button", onclick: () => this.choice.review(group.peek().questions) });
    const list = h("ul");
    watch(() => {
      say(title, visible(group.value.title));
      const number = group.value.questions.filter(isJoinable).length;
      together.hidden = !isTool || number < 2;
      say(together, `Review ${number} together`);
      say(note, together.hidden ? group.value.note : "");
    });
    each(list, () => group.value.questions, ({ approval_id: id }) => id, (row) => this.#row(row, isTool));
    return h("section.group", {}, h("h2", {}, title, note, together), list);
  }

  #row(/** @type {import("../../dom/live.js").Signal<any>} */ row, isTool = false) {
    const question = row.peek();
    const id = question.approval_id, words = sentenceOf(question);
    const box = h("input", { type: "checkbox", "aria-label": `Choose ${question.name}: ${visible(words)}`, onchange: () => this.#toggle(row.peek()) });
    const age = h("time", { title: exactly(question.asked_at) }), end = h("span.end"), two = h("i.two"), who = h("span.clip", {}, visible(`${this.app.nameOf(question.agent)}, for ${ownerOf(question.principal)}`));
    const link = h("a", {}, h("span.l1", {}, icon(question.kind === "unknown" ? "unknown" : question.kind === "call" ? "waiting" : "menu"), h("span.offscreen", {}, KINDS[question.kind] ?? ""), h("b.clip", { dir: "auto" }, visible(words)), age), h("span.l2", {}, h("code", {}, visible(question.name)), two, who, end));
    const element = h("li.q", { dataset: { id } }, box, link);
    watch(() => {
      const now = this.clock.value, { words: left, isSoon } = expiryOf(row.value, now);
      say(age, `${lasting(now - Date.parse(question.asked_at))} ago`);
      say(end, left);
      element.classList.toggle("is-soon", isSoon);
    });
    watch(() => link.setAttribute("href", this.address(id)));
    watch(() => {
      const { approvers, approved_by: by = [] } = row.value;
      two.hidden = !(approvers > 1);
      say(two, `${by.length} of ${approvers}`);
      two.title = `${by.length} of ${approvers} persons have approved`;
      box.hidden = !isTool || !isJoinable(row.value);
      box.checked = this.choice.has(id);
      if (this.current() === id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
    return element;
  }
}

/** @type {(questions: import("./openQuestions.js").OpenQuestions, isAny: boolean) => any} Returns what stands below the list. */
export function listNote(questions, isAny) {
  const error = questions.error();
  if (error) return Notice({ text: errorWords(error), code: error.code });
  if (!questions.isKnown()) return h("p.faint", {}, "Reading the questions");
  if (isAny) return questions.hasMore() && h("button.btn", { type: "button", onclick: questions.more }, "Show earlier questions");
  return [h("p", {}, questions.list().length ? "No such question waits." : "Nothing waits for you."), h("p.faint", {}, "A run asks here before a call that needs an approval, when its tool or its agent wants to know something, and when it is not known whether a call took effect.")];
}

/** Return which keys do what in the list. */
export function keysHint() {
  return h("p.keys-hint", { "aria-hidden": "true" }, [["j", "k", "move"], ["x", "choose"], ["e", "edit"], ["o", "open the run"]].map((parts) => h("span", {}, parts.slice(0, -1).map((key) => h("kbd", {}, key)), parts.at(-1))));
}
