// @ts-check
// What can be chosen about the board: by what runs are grouped, which columns are shown, which this browser keeps, and its look.

import { h } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { addressOf } from "../../router.js";
import { keep, recalled } from "../../services/kept.js";
import { GROUPS } from "../../state/savedViews.js";
import { MenuButton } from "../../ui/MenuButton.js";

/** @typedef {import("../../ui/Table.js").Column} Column */

const KEPT = "board columns left out";
/** Columns without which a row says nothing. */
const ALWAYS = ["choice", "what"];
/** What there is to do about the runs, by which they are grouped unless the address says otherwise. */
const STATE = "state";

/** Return the menu of the groups; `onGroup(name)` gets what is chosen. */
export function groupMenu(/** @type {import("../../dom/live.js").Signal<string>} */ group, /** @type {(name: string) => void} */ onGroup) {
  const chosen = signal(/** @type {ReadonlySet<string>} */ (new Set([STATE])));
  watch(() => { chosen.value = new Set([group.value || STATE]); });
  const items = [STATE, ...GROUPS].map((name) => ({ name, title: name }));
  return MenuButton({ title: "Group the runs by", label: () => `Group: ${group.value || STATE}`, items, chosen, onChoose: ([name]) => onGroup(name === STATE ? "" : name) });
}

/** Return the menu of a table's columns, which hides those that are left out. */
export function columnMenu(/** @type {import("../../ui/Table.js").Table} */ table) {
  const items = table.columns.filter(({ name }) => !ALWAYS.includes(name));
  const stored = recalled(KEPT);
  const out = new Set(Array.isArray(stored) ? stored : []);
  const chosen = signal(/** @type {ReadonlySet<string>} */ (new Set(items.map(({ name }) => name).filter((name) => !out.has(name)))));
  watch(() => {
    for (const { name } of items) table.element.classList.toggle(`without-${name}`, !chosen.value.has(name));
  });
  return MenuButton({ title: "Columns", label: () => "Columns", items, chosen, isMany: true, onChoose: (names) => {
    chosen.value = names;
    keep(KEPT, items.map(({ name }) => name).filter((name) => !names.has(name)));
  } });
}

/** Return the links to the same runs as a table, and in lanes. */
export function asLinks(/** @type {import("../../dom/live.js").Signal<string>} */ as, /** @type {() => Record<string, string>} */ query) {
  const links = [["Table", ""], ["Lanes", "lanes"]].map(([words, look]) => {
    const link = h("a", {}, words);
    watch(() => {
      link.setAttribute("href", addressOf("/board", {}, { ...query(), as: look }));
      if (as.value === look) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    return link;
  });
  return h("nav.seg", { "aria-label": "As" }, links);
}
