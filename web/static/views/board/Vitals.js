// @ts-check
import { ago, count, ticking } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { FAILED } from "./groups.js";

/** How the fleet is, in a few numbers; each leads to the runs that it counts. */
export class Vitals {
  /** @param {any} board */
  constructor(board) {
    this.element = h("section.vitals", { "aria-label": "How the fleet is" });
    const open = this.#vital("Open now", { status: "open" });
    const asks = this.#vital("Need a person", { status: "waiting" });
    const failed = this.#vital("Failed in 24 hours", FAILED);
    watch(() => {
      board.changes.value;
      const { questions, failed: failures } = board.lanes();
      const waiting = board.number("waiting") - board.number("questions");
      open.say(count(board.open), `${count(board.number("running"))} run, ${count(board.number("queued"))} queued, ${count(waiting)} wait`);
      asks.say(count(board.number("questions")), questions.length ? `the oldest for ${ticking(Date.now() - Date.parse(questions[0].created_at))}` : "");
      asks.element.classList.toggle("is-wait", board.number("questions") > 0);
      failed.say(count(board.number("failed")), failures.length ? `the last ${ago(failures[0].ended_at ?? failures[0].created_at)}` : "");
    });
  }

  /** @type {(name: string, query: Record<string, string>) => {element: HTMLElement, say: (number: string, note: string) => void}} */
  #vital(name, query) {
    const [number, note] = [h("b"), h("small")];
    const element = h("a.vital", { href: addressOf("/board", {}, query) }, h("span.vital-name", {}, name), h("span.vital-number", {}, number), note);
    this.element.append(element);
    return { element, say: (text, more) => (say(number, text), say(note, more)) };
  }
}
