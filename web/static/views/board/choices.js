// @ts-check
// The menus of the board: by what runs are grouped, and which columns are shown, which this browser keeps.

import { signal, watch } from "../../dom/live.js";
import { keep, recalled } from "../../services/kept.js";
import { MenuButton } from "../../ui/MenuButton.js";

/** @typedef {import("../../ui/Table.js").Column} Column */

const KEPT = "board columns left out";
/** Columns without which a row says nothing. */
const ALWAYS = ["choice", "what"];
/** What runs are grouped by, by its name in the address; the first is what there is to do about them. */
export const GROUPED_BY = /** @type {Record<string, string>} */ ({ state: "state", agent: "agent", owner: "owner" });

/** Return the menu of the groups; `onGroup(name)` gets what is chosen. */
export function groupMenu(/** @type {import("../../dom/live.js").Signal<string>} */ group, /** @type {(name: string) => void} */ onGroup) {
  const chosen = signal(/** @type {ReadonlySet<string>} */ (new Set(["state"])));
  watch(() => { chosen.value = new Set([group.value || "state"]); });
  const items = Object.entries(GROUPED_BY).map(([name, title]) => ({ name, title }));
  return MenuButton({ title: "Group the runs by", label: () => `Group: ${GROUPED_BY[group.value || "state"]}`, items, chosen, onChoose: ([name]) => onGroup(name === "state" ? "" : name) });
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
