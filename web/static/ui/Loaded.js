// @ts-check
import { Notice } from "../components/Notice.js";
import { fill, h } from "../dom/h.js";
import { watch } from "../dom/live.js";
import { errorWords } from "../state/words.js";

/**
 * Return an element with what a resource has; before its first answer it says that it is reading, and after an error what
 * to do.
 *
 * @template T
 * @param {{state: {value: {value: T | undefined, error: any, isLoading: boolean}}, refresh: () => void}} resource
 * @param {(value: T) => any} show returns the children
 * @param {string} [what] what is read, for the words meanwhile
 */
export function Loaded({ state, refresh }, show, what = "") {
  const place = h("div.loaded");
  watch(() => {
    const { value, error } = state.value;
    if (error && (value === undefined || !error.retryable)) fill(place, Notice({ text: errorWords(error), code: error.code, actions: [["Read again", refresh]] }));
    else if (value === undefined) fill(place, h("p.faint", { role: "status" }, `Reading ${what}`.trim()));
    else fill(place, show(value));
  });
  return place;
}
