// @ts-check
// What a run asks of persons, above its steps: each question with its answers, and how those answered here were answered.

import { h } from "../../dom/h.js";
import { each, signal } from "../../dom/live.js";
import { sentenceOf } from "../../state/inbox.js";
import { Answering } from "../approvals/Answering.js";
import { OutcomeLine } from "../approvals/Outcome.js";

export { styles } from "../approvals/Answering.js";

/** A workflow may ask about hundreds of items at once; the approvals list them. */
const MOST_SHOWN = 5;

/** @typedef {{key: string, question?: any, answer?: any, rest?: number}} Row */

/** The questions of a run; keys go to the first that is open. */
export class RunQuestions {
  /** @type {Map<string, Answering>} */
  #open = new Map();
  #answers = signal(/** @type {Row[]} */ ([]));

  /** @param {{run: () => any, clock: any, onAnswer: () => void}} given */
  constructor({ run, clock, onAnswer }) {
    this.run = run;
    this.clock = clock;
    this.onAnswer = onAnswer;
    this.element = h("div.run-asks.answering");
    each(this.element, () => this.#rows(), ({ key }) => key, (row) => this.#make(row));
    const press = (/** @type {string} */ key) => () => this.#first()?.press(key);
    this.keys = { a: press("approve"), e: press("edit"), r: press("reject"), p: press("pass") };
  }

  /** @returns {Row[]} */
  #rows() {
    const run = this.run(), answers = this.#answers.value;
    const isAnswered = (/** @type {any} */ question) => answers.some(({ key, answer }) => key === `done ${question.approval_id}` && !answer.isOneOfSeveral);
    const questions = (run?.approvals ?? []).filter((/** @type {any} */ question) => !isAnswered(question));
    const rows = questions.slice(0, MOST_SHOWN).map((/** @type {any} */ question) => ({ key: question.approval_id, question: { ...question, run_id: run.run_id, thread_id: run.thread_id, principal: run.principal } }));
    const rest = questions.length - rows.length;
    return [...answers, ...rows, ...(rest > 0 ? [{ key: "rest", rest }] : [])];
  }

  /** @param {import("../../dom/live.js").Signal<Row>} row */
  #make(row) {
    const { key, question, answer, rest } = row.peek();
    if (rest) return h("p.asks-rest", {}, h("a", { href: "#/approvals" }, "The run asks more. All questions stand in the approvals."));
    if (answer) return OutcomeLine(answer, sentenceOf(question));
    const parts = new Answering({ row: () => row.value.question, clock: this.clock, onAnswer: (given) => this.#note(question, { isMine: !given.isLate, ...given }) });
    this.#open.set(key, parts);
    return h("section.asks", { "aria-label": "A question", dataset: { question: key } }, h("header", {}, parts.head), parts.several, parts.body, parts.why, parts.until, parts.foot);
  }

  /** @type {(question: any, answer: any) => void} */
  #note(question, answer) {
    const key = `done ${question.approval_id}`;
    this.#answers.value = [...this.#answers.peek().filter((row) => row.key !== key), { key, question, answer }];
    this.onAnswer();
    requestAnimationFrame(() => /** @type {HTMLElement | null} */ ([...this.element.querySelectorAll(".outcome")].at(-1))?.focus());
  }

  #first() {
    const first = /** @type {HTMLElement | null} */ (this.element.querySelector(".asks"));
    return first && this.#open.get(first.dataset.question ?? "");
  }
}
