// @ts-check
import { h } from "../dom/h.js";
import { asJson } from "../dom/json.js";
import { visible } from "../dom/visible.js";

/** @type {(args: Record<string, unknown> | null | undefined, defaults?: [name: string, value: unknown][]) => HTMLElement} Returns the arguments of a call, one line each, nothing shortened, then what the tool takes for those left out. */
export function ArgumentList(args, defaults = []) {
  const rows = [...Object.entries(args ?? {}).map(([name, value]) => row(name, value)), ...defaults.map(([name, value]) => row(name, value, h("small", {}, " default")))];
  return rows.length ? h("dl.args", {}, rows) : h("p.faint", {}, "No arguments.");
}

/** Return the arguments of a call in one line; `…` where there are none yet. */
export function argumentLine(/** @type {Record<string, unknown> | undefined} */ args) {
  if (args === undefined) return "…";
  const values = Object.entries(args);
  if (!values.length) return "()";
  const text = values.length === 1 ? shortened(values[0][1]) : values.map(([name, value]) => `${name}: ${shortened(value)}`).join(", ");
  return visible(`(${text})`.replace(/\s+/g, " ").slice(0, 300));
}

/** @type {(name: string, value: unknown, note?: HTMLElement) => (HTMLElement | HTMLElement[])[]} */
function row(name, value, note) {
  return [h("dt", {}, visible(name)), h("dd", {}, visible(typeof value === "string" ? value : asJson(value)), note)];
}

function shortened(/** @type {unknown} */ value) {
  return typeof value === "string" ? `“${value.slice(0, 200)}”` : JSON.stringify(value).slice(0, 200);
}
