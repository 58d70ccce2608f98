// @ts-check
import { count, plural, ticking } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { each, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";

/** @typedef {Record<string, any>} Observer a row of GET /v1/observers */

/** The observers that tail the log: how far behind each is, and what it did not take. */
export class Observers {
  /** @param {import("../../dom/live.js").Signal<{value: Observer[] | undefined}>} state */
  constructor(state) {
    const rows = () => state.value.value ?? [];
    const list = h("ul.parts"), none = h("p.part-note", {}, "No process has fed one yet.");
    this.element = h("div", {}, list, none);
    each(list, rows, ({ name }) => name, (row) => {
      const [mark, name, words] = [h("i.dot", {}, h("span.offscreen")), h("span.part-name.clip"), h("span")];
      const line = h("li", {}, mark, name, words);
      watch(() => {
        const { is_late: isLate, name: own, delivered } = row.value;
        line.dataset.state = isLate ? "warn" : "ok";
        mark.className = `dot is-${line.dataset.state}`;
        say(/** @type {HTMLElement} */ (mark.firstChild), isLate ? "look at it" : "well");
        say(name, visible(own));
        say(words, wordsOf(row.value));
        line.title = `${visible(own)}: ${count(delivered)} delivered`;
      });
      return line;
    });
    watch(() => {
      none.hidden = rows().length > 0;
      list.hidden = !none.hidden;
    });
  }
}

/** @type {(observer: Observer) => string} */
function wordsOf({ state, behind_s: behind, dead, retrying }) {
  const place = behind >= 1 ? `${ticking(behind * 1000)} behind` : "up to date";
  return [state === "running" ? "" : state, place, retrying && `${count(retrying)} tried again`, dead && plural(dead, "dead letter")].filter(Boolean).join(", ");
}
