// @ts-check
// The columns of the audit log.

import { exactly } from "../../dom/format.js";
import { h, say } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { textColumn } from "../../ui/Table.js";

/** @type {Record<string, string>} Where the name of the credential would not say it. */
const CREDENTIALS = { key: "API key", local: "this machine's token", none: "", process: "" };
const MOST_CHARS = 300;

/** @type {(opened: import("../../dom/live.js").Signal<string>) => import("../../ui/Table.js").Column[]} */
export function auditColumns(opened) {
  return [
    textColumn("number", "Entry", ({ entry }) => String(entry.number), { isNumber: true }),
    textColumn("at", "When", ({ entry }) => exactly(entry.at)),
    { name: "action", title: "What", show: (cell, row) => showAction(cell, row, opened) },
    textColumn("outcome", "Outcome", ({ entry }) => (entry.outcome === "refused" ? "✕ refused" : entry.outcome)),
    textColumn("who", "Who", ({ entry }) => visible([entry.principal || (entry.credential === "process" ? "a process of Callboard" : "not signed in"), CREDENTIALS[entry.credential] ?? entry.credential].filter(Boolean).join(" · "))),
    textColumn("target", "To what", ({ entry }) => visible([entry.target, entry.target_id].filter(Boolean).join(" "))),
    textColumn("facts", "Facts", ({ entry }) => visible(factsOf(entry.facts))),
  ];
}

/** @type {(cell: HTMLElement, row: any, opened: import("../../dom/live.js").Signal<string>) => void} */
function showAction(cell, row, opened) {
  if (!cell.firstChild) cell.append(h("button.quiet", { type: "button" }));
  const button = /** @type {HTMLButtonElement} */ (cell.firstChild);
  say(button, row.entry.action);
  button.setAttribute("aria-expanded", String(opened.value === row.key));
}

/** @type {(facts: Record<string, any>) => string} */
function factsOf(facts) {
  return Object.entries(facts).filter(([, value]) => value !== null).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ").slice(0, MOST_CHARS);
}
