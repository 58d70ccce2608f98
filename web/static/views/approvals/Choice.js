// @ts-check
import { signal } from "../../dom/live.js";
import { isJoinable } from "../../state/inbox.js";

/** The calls of one tool that are chosen, and whether they, or what came of them, are shown together: the address says so. */
export class Choice {
  #ids = signal(/** @type {Set<string>} */ (new Set()));
  #isTogether = signal(false);
  /** What came of the calls that were decided about together, while that is shown. */
  answers = signal(/** @type {{question: any, answer: any}[]} */ ([]));

  /** @param {{order: () => any[], address: (id?: string, more?: any) => string}} given `order` returns the questions as they are listed */
  constructor({ order, address }) {
    this.order = order;
    this.address = address;
  }

  /** Return the calls that are chosen and open. */
  calls() {
    const ids = this.#ids.value;
    return this.order().filter((question) => ids.has(question.approval_id) && isJoinable(question));
  }

  has(/** @type {string} */ id) {
    return this.#ids.value.has(id);
  }

  /** True while several calls are shown together, or what came of them. */
  isTogether() {
    return this.#isTogether.value && (this.calls().length > 1 || this.answers.value.length > 0);
  }

  /** Do as the address says. */
  show(/** @type {boolean} */ isTogether) {
    if (this.#isTogether.peek() !== isTogether) this.answers.value = [];
    this.#isTogether.value = isTogether;
  }

  /** Choose a call, or choose it no more; a call of another tool begins anew. On a phone `review` alone shows them. */
  toggle(/** @type {any} */ question) {
    const ids = this.#ids.peek();
    const next = new Set(this.order().filter((each) => ids.has(each.approval_id) && each.name === question.name).map((each) => each.approval_id));
    if (!next.delete(question.approval_id)) next.add(question.approval_id);
    this.#ids.value = next;
    if (next.size > 1 && matchMedia("(min-width: 761px)").matches) this.review();
  }

  /** Show the chosen calls together, or these. */
  review(/** @type {any[]} */ calls = []) {
    if (calls.length) this.#ids.value = new Set(calls.filter(isJoinable).map((call) => call.approval_id));
    this.answers.value = [];
    this.#isTogether.value = true;
    location.hash = this.address("", { review: "yes" });
  }

  /** Choose none, and show the question with this id; false where none was chosen. */
  none(/** @type {string} */ id = "") {
    if (this.#isTogether.peek()) location.replace(this.address(id));
    this.#ids.value = new Set();
  }

  /** Note answers: those to several calls are shown together. */
  note(/** @type {any[]} */ questions, /** @type {any[]} */ answers, /** @type {boolean} */ isTogether) {
    const ids = new Set(questions.map((question) => question.approval_id));
    this.#ids.value = new Set([...this.#ids.peek()].filter((id) => !ids.has(id)));
    if (isTogether) this.answers.value = questions.map((question, i) => ({ question, answer: { isMine: true, ...answers[i], refusal: answers[i].detail } }));
  }
}
