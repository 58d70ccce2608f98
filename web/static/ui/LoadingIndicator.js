// @ts-check
import { h } from "../dom/h.js";

/** Return three quiet dots and the words for what is awaited. */
export function LoadingIndicator(words = "Loading") {
  const dots = h("span.dots", { "aria-hidden": "true" }, h("i"), h("i"), h("i"));
  return h("div.loading", {}, dots, h("span", {}, words));
}
