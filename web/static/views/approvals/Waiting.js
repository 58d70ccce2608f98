// @ts-check
// The list of open questions, and beside it the chosen one, several chosen ones, or how one was answered.

import { LoadingIndicator } from "../../components/LoadingIndicator.js";
import { Notice } from "../../components/Notice.js";
import { fill, h } from "../../dom/h.js";
import { each, signal, watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { listQuestions } from "../../services/approvals.js";
import { groupsOf, isJoinable } from "../../state/inbox.js";
import { errorWords } from "../../state/words.js";
import { BatchBar, BatchReview } from "./Batch.js";
import { Outcome } from "./Outcome.js";
import { Question } from "./Question.js";
import { QuestionList } from "./QuestionList.js";

const LATEST = 100;

/** The first tab of the approvals. */
export class Waiting {
  #wanted = signal("");
  #chosen = signal(/** @type {Set<string>} */ (new Set()));
  #outcomes = signal(/** @type {Map<string, {question: any, answer: any}>} */ (new Map()));
  /** @type {Map<string, any>} Each question as it was listed last. */
  #known = new Map();
  /** @type {Question | null} */
  #pane = null;
  #place = 0;
  #sought = new Set();

  /** @param {{app: any, questions: import("./openQuestions.js").OpenQuestions, query: any, clock: any}} given */
  constructor({ app, questions, query, clock }) {
    this.app = app;
    this.questions = questions;
    this.clock = clock;
    this.groups = () => groupsOf(questions.list(), query.value);
    this.list = new QuestionList({ groups: this.groups, current: () => this.#wanted.value, chosen: this.#chosen, app, clock });
    this.bar = new BatchBar({ chosen: this.#chosen, questions: () => this.#picked(), onAnswers: (calls, answers) => this.#noteAnswers(calls, answers) });
    const note = h("div.list-note", { role: "status" });
    const hints = h("p.keys-hint", { "aria-hidden": "true" }, [["j", "k", "move"], ["x", "choose"], ["e", "edit"], ["o", "open the run"]].map((parts) => h("span", {}, parts.slice(0, -1).map((key) => h("kbd", {}, key)), parts.at(-1))));
    const place = h("div.right-place");
    each(place, () => [this.#right()], ({ key }) => key, (row) => this.#make(row));
    watch(() => this.#showNote(note));
    watch(() => this.#follow());
    this.element = h("div.columns", {}, h("section.list", { "aria-label": "Open questions" }, this.list.element, note, this.bar.problem, this.bar.element, hints), place);
    const press = (/** @type {string} */ key) => () => this.#press(key);
    this.keys = { j: () => this.#step(1), k: () => this.#step(-1), x: () => this.list.toggle(this.#known.get(this.#wanted.peek())), a: press("approve"), e: press("edit"), r: press("reject"), p: press("pass"), o: () => /** @type {HTMLElement | null} */ (this.element.querySelector(".right [data-key=run]"))?.click() };
  }

  /** Show a question, or with "" the first one where there is room beside the list. */
  show(/** @type {string} */ id) {
    this.#wanted.value = id;
  }

  #order() {
    return this.groups().flatMap(({ questions }) => questions);
  }

  #picked() {
    const keys = this.#chosen.value;
    return this.#order().filter((question) => keys.has(question.approval_id) && isJoinable(question));
  }

  // What was listed is kept, and without an address the first question is the chosen one.
  #follow() {
    const order = this.#order();
    for (const question of this.questions.list()) {
      this.#known.set(question.approval_id, question);
      // It was looked for before the list had it.
      if (this.#outcomes.peek().get(question.approval_id)?.answer.isOver) this.#outcomes.peek().delete(question.approval_id);
    }
    const at = order.findIndex(({ approval_id: id }) => id === this.#wanted.value);
    if (at >= 0) this.#place = at;
    if (!this.#wanted.value && order.length && matchMedia("(min-width: 761px)").matches) this.#wanted.value = order[0].approval_id;
  }

  #right() {
    const picked = this.#picked(), id = this.#wanted.value;
    if (picked.length > 1) return { key: "batch", questions: picked };
    const question = this.questions.list().find(({ approval_id: each }) => each === id), outcome = this.#outcomes.value.get(id);
    if (outcome && !(question && (outcome.answer.isOneOfSeveral || outcome.answer.isOver))) return { key: `done ${id}`, ...outcome };
    if (question) return { key: `open ${id}`, question };
    if (!id || !this.questions.isKnown()) return { key: id ? "reading" : "none" };
    this.#lookUp(id);
    return { key: "reading" };
  }

  // The pane of a question that was just chosen is there with the next frame: a key is never meant for the one before.
  #press(/** @type {string} */ key) {
    if (this.#picked().length > 1) return this.bar.focus(key);
    const id = this.#wanted.peek();
    const act = () => this.#pane?.question.approval_id === id && this.#pane?.press(key);
    if (!act()) requestAnimationFrame(act);
  }

  #make(/** @type {any} */ row) {
    const { key } = row.peek();
    this.#pane = null;
    if (key === "batch") return BatchReview(row);
    if (key === "none") return h("section.right", {}, h("p.nothing.faint", {}, "Choose a question to see it in full."));
    if (key === "reading") return h("section.right", {}, LoadingIndicator("Reading the question"));
    if (key.startsWith("done")) return Outcome({ ...row.peek(), onNext: this.#order().length ? () => this.#step(0) : null });
    return (this.#pane = new Question({ row, app: this.app, clock: this.clock, onAnswer: (question, answer) => this.#noteAnswers([question], [answer]) })).element;
  }

  // A question that is open no more was answered, perhaps by another person at this moment, or its run has ended.
  async #lookUp(/** @type {string} */ id) {
    if (this.#sought.has(id)) return;
    this.#sought.add(id);
    const { approvals } = await listQuestions({ state: "answered", limit: LATEST }).catch(() => ({ approvals: [] }));
    this.#sought.delete(id);
    const answered = approvals.find((/** @type {any} */ each) => each.approval_id === id);
    const question = answered ?? this.#known.get(id) ?? null;
    if (!this.#outcomes.peek().has(id)) this.#put([[id, { question, answer: answered?.answer ?? { isOver: true } }]]);
  }

  #put(/** @type {[string, {question: any, answer: any}][]} */ entries) {
    const hasFocus = this.element.querySelector(".right-place")?.contains(document.activeElement) || document.activeElement === document.body;
    this.#outcomes.value = new Map([...this.#outcomes.peek(), ...entries]);
    if (hasFocus) requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLElement | null} */ (this.element.querySelector(".right h2"))?.focus()));
  }

  #noteAnswers(/** @type {any[]} */ questions, /** @type {any[]} */ answers) {
    const entries = questions.map((question, i) => /** @type {[string, any]} */ ([question.approval_id, { question, answer: { isMine: !answers[i].isLate, ...answers[i] } }])).filter(([, { answer }]) => answer.decision || answer.isOver);
    const done = new Set(entries.map(([id]) => id));
    this.#chosen.value = new Set([...this.#chosen.peek()].filter((id) => !done.has(id)));
    this.#put(entries);
    this.questions.refresh();
  }

  // Behind a question that was answered stands the one that has its place now.
  #step(/** @type {number} */ by) {
    const order = this.#order(), at = order.findIndex(({ approval_id: id }) => id === this.#wanted.peek());
    const next = order[at < 0 ? Math.min(this.#place, order.length - 1) : Math.min(order.length - 1, Math.max(0, at + by))];
    if (!next) return;
    location.replace(addressOf("/approvals/:approvalId", { approvalId: next.approval_id }));
    this.#wanted.value = next.approval_id;
    this.list.focus(next.approval_id);
  }

  #showNote(/** @type {HTMLElement} */ note) {
    const error = this.questions.error(), groups = this.groups();
    if (error) fill(note, Notice({ text: errorWords(error), code: error.code }));
    else if (!this.questions.isKnown()) fill(note, h("p.faint", {}, "Reading the questions"));
    else if (!groups.length) fill(note, h("p", {}, this.questions.list().length ? "No question of this agent waits." : "Nothing waits for you."), h("p.faint", {}, "A run asks here before a call that needs an approval, when its tool or its agent wants to know something, and when it is not known whether a call took effect."));
    else fill(note, this.questions.hasMore() && h("button.btn", { type: "button", onclick: this.questions.more }, "Show earlier questions"));
  }
}
