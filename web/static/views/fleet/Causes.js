// @ts-check
import { ago, count } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { each, watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { FAILED } from "../board/groups.js";
import { slotsBar } from "./slotsBar.js";

const MOST = 8;

/** Why runs failed within a day; each cause leads to its runs. */
export class Causes {
  /** @param {import("../../dom/live.js").Signal<{value: any}>} state */
  constructor(state) {
    const groups = () => (state.value.value?.groups ?? []).slice(0, MOST);
    const list = h("ul.codes"), none = h("p.part-note", {}, "No run failed.");
    this.element = h("div", {}, list, none);
    each(list, groups, ({ value }) => value, (group) => {
      const [name, bar, number] = [h("span.mono.clip"), h("span"), h("b")];
      watch(() => {
        const { value, count: own, latest_at: latest } = group.value;
        say(name, value);
        fill(bar, slotsBar(own, groups()[0]?.count ?? own));
        say(number, count(own));
        name.title = latest ? `the last ${ago(latest)}` : "";
      });
      return h("li", {}, h("a", { href: addressOf("/board", {}, { ...FAILED, code: group.peek().value }) }, name, bar, number));
    });
    watch(() => {
      none.hidden = groups().length > 0;
      list.hidden = !none.hidden;
    });
  }
}
