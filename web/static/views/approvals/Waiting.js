// @ts-check
// The list of open questions, and beside it the chosen one, several chosen ones, or how one was answered.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { fill, h } from "../../dom/h.js";
import { each, signal, watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { listQuestions } from "../../services/approvals.js";
import { groupsOf } from "../../state/inbox.js";
import { BatchBar, BatchReview } from "./Batch.js";
import { Choice } from "./Choice.js";
import { BatchOutcome, Outcome } from "./Outcome.js";
import { Question } from "./Question.js";
import { QuestionList, keysHint, listNote } from "./QuestionList.js";

const LATEST = 100;

/** The first tab of the approvals. */
export class Waiting {
  #wanted = signal("");
  #outcomes = signal(/** @type {Map<string, {question: any, answer: any}>} */ (new Map()));
  /** @type {Set<string>} The tools whose calls stand together, and stay so. */
  #tools = new Set();
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
    this.groups = () => groupsOf(questions.list(), query.value, this.#tools);
    this.address = (/** @type {string} */ id = "", more = {}) => addressOf(id ? "/approvals/:approvalId" : "/approvals", { approvalId: id }, { ...query.value, ...more });
    this.choice = new Choice({ order: () => this.#order(), address: this.address });
    this.list = new QuestionList({ groups: this.groups, current: () => (this.choice.isTogether() ? "" : this.#wanted.value), choice: this.choice, address: this.address, app, clock });
    this.bar = new BatchBar({ choice: this.choice, onNone: () => this.#chooseNone(), onAnswers: (calls, answers) => this.#noteAnswers(calls, answers, true) });
    const note = h("div.list-note", { role: "status" });
    const place = h("div.right-place");
    each(place, () => [this.#right()], ({ key }) => key, (row) => this.#make(row));
    watch(() => fill(note, listNote(questions, this.groups().length > 0)));
    watch(() => this.#follow());
    this.element = h("div.columns", {}, h("section.list", { "aria-label": "Open questions" }, this.list.element, note, this.bar.problem, this.bar.element, keysHint()), place);
    const press = (/** @type {string} */ key) => () => this.#press(key);
    const { choice } = this, chooseNone = () => this.#chooseNone();
    this.keys = { get Escape() { return choice.calls().length ? chooseNone : undefined; }, j: () => this.#step(1), k: () => this.#step(-1), x: () => this.list.press(this.#wanted.peek()), a: press("approve"), e: press("edit"), r: press("reject"), p: press("pass"), o: () => !choice.isTogether() && /** @type {HTMLElement | null} */ (this.element.querySelector(".right [data-key=run]"))?.click() };
  }

  /** Show a question, or with "" the first one where there is room beside the list. */
  show(/** @type {string} */ id, isTogether = false) {
    if (!isTogether) this.#wanted.value = id;
    this.choice.show(isTogether);
  }

  #chooseNone() {
    const id = this.#wanted.peek();
    this.choice.none(id);
    this.list.focus(id);
  }

  #order() {
    return this.groups().flatMap(({ questions }) => questions);
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
    const id = this.#wanted.value, answers = this.choice.answers.value;
    if (this.choice.isTogether()) return answers.length ? { key: `answers ${answers[0].question.approval_id}`, answers } : { key: "batch", questions: this.choice.calls() };
    const question = this.questions.list().find(({ approval_id: each }) => each === id), outcome = this.#outcomes.value.get(id);
    if (outcome && !(question && (outcome.answer.isOneOfSeveral || outcome.answer.isOver))) return { key: `done ${id}`, ...outcome };
    if (question) return { key: `open ${id}`, question };
    if (!id || !this.questions.isKnown()) return { key: id ? "reading" : "none" };
    this.#lookUp(id);
    return { key: "reading" };
  }

  // The pane of a question that was just chosen is there with the next frame: a key is never meant for the one before.
  #press(/** @type {string} */ key) {
    if (this.choice.isTogether()) return this.bar.focus(key);
    const id = this.#wanted.peek();
    const act = () => this.#pane?.question.approval_id === id && this.#pane?.press(key);
    if (!act()) requestAnimationFrame(act);
  }

  #make(/** @type {any} */ row) {
    const element = this.#paneOf(row);
    element.querySelector(".back")?.setAttribute("href", this.address());
    return element;
  }

  #paneOf(/** @type {any} */ row) {
    const { key } = row.peek(), { board } = this.app.feed, onNext = this.#order().length ? () => this.#step(0) : null;
    this.#pane = null;
    if (key === "batch") return BatchReview(row);
    if (key.startsWith("answers")) return BatchOutcome({ ...row.peek(), board, onNext });
    if (key === "none") return h("section.right", {}, h("p.nothing.faint", {}, "Choose a question to see it in full."));
    if (key === "reading") return h("section.right", {}, LoadingIndicator("Reading the question"));
    if (key.startsWith("done")) return Outcome({ ...row.peek(), board, onNext });
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

  #noteAnswers(/** @type {any[]} */ questions, /** @type {any[]} */ answers, isTogether = false) {
    const entries = questions.map((question, i) => /** @type {[string, any]} */ ([question.approval_id, { question, answer: { isMine: !answers[i].isLate, ...answers[i] } }])).filter(([, { answer }]) => answer.decision || answer.isOver);
    this.choice.note(questions, answers, isTogether);
    this.#put(entries);
    this.questions.refresh();
  }

  // Behind a question that was answered stands the one that has its place now.
  #step(/** @type {number} */ by) {
    const order = this.#order(), at = order.findIndex(({ approval_id: id }) => id === this.#wanted.peek());
    const next = order[at < 0 ? Math.min(this.#place, order.length - 1) : Math.min(order.length - 1, Math.max(0, at + by))];
    if (!next) return;
    location.replace(this.address(next.approval_id));
    this.show(next.approval_id);
    this.list.focus(next.approval_id);
  }
}
