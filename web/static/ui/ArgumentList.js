import { h } from "../dom/h.js";
import { asJson } from "../dom/json.js";
import { visible } from "../dom/visible.js";

/** Return the arguments of a call, one line each, nothing shortened, then what the tool takes for those left out. */
export function ArgumentList(args, defaults = []) {
  const rows = [...Object.entries(args ?? {}).map(([name, value]) => row(name, value)), ...defaults.map(([name, value]) => row(name, value, h("small", {}, " default")))];
  return rows.length ? h("dl.args", {}, rows) : h("p.faint", {}, "No arguments.");
}

function row(name, value, note) {
  return [h("dt", {}, visible(name)), h("dd", {}, visible(typeof value === "string" ? value : asJson(value)), note)];
}
