// @ts-check
import { Notice } from "./Notice.js";
import { fill, h } from "../dom/h.js";
import { watch } from "../dom/live.js";
import { errorWords } from "../state/words.js";

/**
 * Return an element with what a resource has; before its first answer it says that it is reading, and after an error what
 * to do. The same answer, and an element that is shown already, are left as they are.
 *
 * @template T
 * @param {{state: {value: {value: T | undefined, error: any, isLoading: boolean}}, refresh: () => void}} resource
 * @param {(value: T) => any} show returns the children
 * @param {string} [what] what is read, for the words meanwhile
 */
export function Loaded({ state, refresh }, show, what = "") {
  const place = h("div.loaded");
  let last = /** @type {any[]} */ ([]);
  watch(() => {
    const { value, error } = state.value;
    if (last.length && last[0] === value && last[1] === error) return;
    last = [value, error];
    if (error && (value === undefined || !error.retryable)) return void fill(place, Notice({ text: errorWords(error), code: error.code, actions: [["Read again", refresh]] }));
    if (value === undefined) return void fill(place, h("p.faint", { role: "status" }, `Reading ${what}`.trim()));
    const children = show(value);
    if (children !== place.firstChild) fill(place, children);
  });
  return place;
}
