// @ts-check
import { h } from "../../dom/h.js";

/** Return a bar of how much of a whole is taken; the words beside it say it too. */
export function slotsBar(/** @type {number} */ taken, /** @type {number} */ whole) {
  const share = whole > 0 ? Math.min(1, taken / whole) : 0;
  const fillIn = h("i");
  fillIn.style.width = `${(share * 100).toFixed(1)}%`;
  return h(`span.slots${share >= 1 ? ".is-full" : ""}`, { "aria-hidden": "true" }, fillIn);
}
