import { h } from "../dom/h.js";
import { asJson } from "../dom/json.js";
import { visible } from "../dom/visible.js";

/** Return the arguments of a call, one line each, nothing shortened. */
export function ArgumentList(args) {
  const entries = Object.entries(args ?? {});
  if (!entries.length) return h("p.faint", {}, "No arguments.");
  return h("dl.args", {}, entries.map(([name, value]) => [h("dt", {}, visible(name)), h("dd", {}, visible(typeof value === "string" ? value : asJson(value)))]));
}
