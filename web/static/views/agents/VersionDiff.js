// @ts-check
// What differs between two versions: the fields, and in each the lines.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { count, plural } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { getVersion } from "../../services/admin.js";
import { diffFields, folded } from "../../state/diff.js";
import { errorWords } from "../../state/words.js";

const SIGNS = /** @type {Record<string, [string, string]>} */ ({ added: ["+", "added"], removed: ["−", "removed"], same: ["", ""] });
const MOST_LINES = 2000;

/** @param {{id: string, numbers: number[], pair: import("../../dom/live.js").Signal<[number, number]>}} given */
export function VersionDiff({ id, numbers, pair }) {
  const place = h("div.diff", { "aria-live": "polite" });
  let visit = 0;
  watch(() => void show(pair.value));
  async function show(/** @type {[number, number]} */ [before, after]) {
    const own = (visit += 1);
    fill(place, LoadingIndicator("Comparing"));
    try {
      const [a, b] = await Promise.all([getVersion(id, before), getVersion(id, after)]);
      if (own === visit) fill(place, fieldsOf(diffFields(a, b)));
    } catch (/** @type {any} */ error) {
      if (own === visit) fill(place, Notice({ text: errorWords(error), code: error.code, actions: [["Try again", () => show([before, after])]] }));
    }
  }
  const choose = (/** @type {number} */ side, /** @type {string} */ label) => {
    const select = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": label, onchange: () => { pair.value = /** @type {[number, number]} */ (pair.peek().map((number, at) => (at === side ? Number(select.value) : number))); } }, numbers.map((number) => h("option", { value: String(number) }, `version ${count(number)}`))));
    watch(() => { select.value = String(pair.value[side]); });
    return select;
  };
  const swap = h("button.quiet", { type: "button", onclick: () => { pair.value = [pair.peek()[1], pair.peek()[0]]; } }, "Swap");
  return h("section.block", {}, h("h3.caps", {}, "What differs"), h("div.row.diff-pair", {}, "From ", choose(0, "From"), " to ", choose(1, "To"), swap), place);
}

/** @type {(fields: {field: string, lines: import("../../state/diff.js").Line[]}[]) => any} */
function fieldsOf(fields) {
  if (!fields.length) return h("p.faint", {}, "They say the same.");
  return fields.map(({ field, lines }) => {
    const number = (/** @type {string} */ kind) => lines.filter((line) => line.kind === kind).length;
    const parts = folded(lines);
    return h("section.diff-field", {}, h("h4", {}, h("code", {}, visible(field)), h("small", {}, `${plural(number("removed"), "line")} less, ${count(number("added"))} more`)), h("ol.diff-lines", { "aria-label": visible(field), tabindex: "0" }, parts.slice(0, MOST_LINES).map(lineOf)), parts.length > MOST_LINES && h("p.faint", {}, `and ${count(parts.length - MOST_LINES)} lines more`));
  });
}

/** @type {(line: any) => HTMLElement} */
function lineOf({ kind, text, count: hidden }) {
  if (kind === "gap") return h("li.is-gap", {}, `${plural(hidden, "line")} the same`);
  const [sign, words] = SIGNS[kind];
  return h(`li.is-${kind}`, {}, h("span.diff-sign", { "aria-hidden": "true" }, sign), words && h("span.offscreen", {}, `${words}: `), h("span", { dir: "auto" }, visible(text) || " "));
}
