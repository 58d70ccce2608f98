// @ts-check
// What a tool call returned: rows as a table, a short record as a list of terms, anything else as text.

import { copyButton } from "../../dom/copyButton.js";
import { h } from "../../dom/h.js";
import { asJson, parseJson } from "../../dom/json.js";
import { visible } from "../../dom/visible.js";
import { ArgumentList } from "../../ui/ArgumentList.js";
import { isRows, structured } from "./LLMResponse.js";

const PREVIEW_LINES = 6;
const MOST_SHOWN = 60_000;

/** @type {(result: any, isOpen: boolean, onToggle: () => void) => HTMLElement | null} Returns the result, the beginning of it where its card is not open; `onToggle` opens that. */
export function ToolResult(result, isOpen, onToggle) {
  if (result === undefined || result === null || result === "") return null;
  const more = (/** @type {string} */ words) => !isOpen && h("button.quiet", { type: "button", onclick: onToggle }, words);
  const value = decoded(result);
  const rows = rowsOf(value);
  if (rows) return h("div.tool-result.is-rows", {}, structured(isOpen ? rows : rows.slice(0, PREVIEW_LINES)), rows.length > PREVIEW_LINES && more(`Show all ${rows.length} rows`));
  if (isShortRecord(value)) return h("div.tool-result", {}, ArgumentList(value));
  const text = typeof result === "string" ? result : asJson(result);
  const lines = text.split("\n");
  const shown = isOpen ? text.slice(0, MOST_SHOWN) : lines.slice(0, PREVIEW_LINES).join("\n").slice(0, 800);
  const isCut = text.length > shown.length;
  return h("div.tool-result", {}, h("pre", { tabindex: "0", role: "region", "aria-label": "Result" }, visible(shown) + (isCut ? " …" : "")),
    isCut && more(lines.length > PREVIEW_LINES ? `Show all ${lines.length} lines` : "Show all"),
    isOpen && copyButton(() => text, "Copy result"));
}

// A result is often JSON as text: what the model was given.
function decoded(/** @type {any} */ result) {
  if (typeof result !== "string" || !/^\s*[[{]/.test(result) || result.length > 200_000) return result;
  return parseJson(result) ?? result;
}

// Rows come as a list of records, under a key of their own, or as columns and rows apart.
function rowsOf(/** @type {any} */ value) {
  if (isRows(value)) return value;
  if (isRows(value?.rows)) return value.rows;
  const isGrid = Array.isArray(value?.columns) && Array.isArray(value?.rows) && value.rows.length > 0 && value.rows.every(Array.isArray);
  const records = isGrid && value.rows.map((/** @type {unknown[]} */ row) => Object.fromEntries(value.columns.map((/** @type {unknown} */ column, /** @type {number} */ i) => [String(column), row[i] ?? null])));
  return records && isRows(records) ? records : null;
}

function isShortRecord(/** @type {unknown} */ value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return false;
  const values = Object.values(value);
  return values.length > 0 && values.length <= 8 && values.every((each) => each === null || typeof each !== "object") && JSON.stringify(value).length < 600;
}
