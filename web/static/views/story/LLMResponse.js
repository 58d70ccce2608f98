// @ts-check
// Structured output as something to read: an object is a list of terms, rows are a table, and the JSON is one click away.

import { h } from "../../dom/h.js";
import { copyButton } from "../../dom/copyButton.js";
import { asJson, parseJson } from "../../dom/json.js";
import { scrollingTable } from "../../dom/scrolling.js";
import { visible } from "../../dom/visible.js";

const MOST_ROWS = 200;
const DEEPEST = 6;

/** Return the element for a structured answer. */
export function LLMResponse(/** @type {unknown} */ value) {
  const json = asJson(value);
  const source = h("details.json", {}, h("summary", {}, "JSON"), h("div.code", {}, h("div.code-bar", {}, h("span", {}, "json"), copyButton(() => json)), h("pre", { tabindex: "0", role: "region", "aria-label": "JSON" }, h("code", {}, visible(json)))));
  return h("div.structured", {}, structured(value), source);
}

/** @type {(value: any, depth?: number) => HTMLElement} Returns the value laid out: definition list, table, list or plain text. */
export function structured(value, depth = 0) {
  if (depth > DEEPEST) return h("code", {}, visible(asJson(value).slice(0, 2000)));
  if (Array.isArray(value)) return isRows(value) ? table(value) : list(value, depth);
  if (value !== null && typeof value === "object") return definitions(value, depth);
  return scalar(value);
}

/** @type {(text: string) => any} Returns the object or array a text is the JSON of, else undefined. */
export function parseStructured(text) {
  const trimmed = unfenced(text.trim());
  if (!/^[[{]/.test(trimmed) || trimmed.length > 400_000) return undefined;
  return parseJson(trimmed);
}

function unfenced(/** @type {string} */ text) {
  const line = text.indexOf("\n");
  const fenced = line > 0 && /^```(json)?$/.test(text.slice(0, line).trimEnd()) && text.endsWith("\n```");
  return fenced ? text.slice(line, -4).trim() : text;
}

/** @typedef {Record<string, unknown>} Flat a record of plain values */

/** True for rows of plain values with the same few columns: a table. @param {unknown} value @returns {value is Flat[]} */
export function isRows(value) {
  if (!Array.isArray(value) || !value.length || !value.every(isFlat)) return false;
  return columnsOf(value).length <= 12;
}

function isFlat(/** @type {unknown} */ row) {
  return row !== null && typeof row === "object" && !Array.isArray(row) && Object.values(row).every((cell) => cell === null || typeof cell !== "object");
}

function columnsOf(/** @type {Flat[]} */ rows) {
  return [...new Set(rows.slice(0, MOST_ROWS).flatMap((row) => Object.keys(row)))];
}

/** @type {(object: object, depth: number) => HTMLElement} */
function definitions(object, depth) {
  const entries = Object.entries(object);
  if (!entries.length) return h("span.faint", {}, "nothing");
  const more = entries.length > MOST_ROWS && [h("dt.faint", {}, "…"), h("dd.faint", {}, `and ${entries.length - MOST_ROWS} more`)];
  return h("dl", {}, entries.slice(0, MOST_ROWS).map(([name, value]) => [h("dt", {}, visible(humane(name))), h("dd", {}, structured(value, depth + 1))]), more);
}

/** @type {(values: any[], depth: number) => HTMLElement} */
function list(values, depth) {
  if (!values.length) return h("span.faint", {}, "none");
  const more = values.length > MOST_ROWS && h("li.faint", {}, `and ${values.length - MOST_ROWS} more`);
  return h("ul", {}, values.slice(0, MOST_ROWS).map((value) => h("li", {}, structured(value, depth + 1))), more);
}

function table(/** @type {Flat[]} */ rows) {
  const columns = columnsOf(rows);
  const numeric = (/** @type {string} */ column) => rows.every((row) => row[column] === undefined || row[column] === null || typeof row[column] === "number");
  const kinds = Object.fromEntries(columns.map((column) => [column, numeric(column) ? "is-right" : "is-left"]));
  const head = h("tr", {}, columns.map((column) => h(`th.${kinds[column]}`, { scope: "col" }, visible(humane(column)))));
  const body = rows.slice(0, MOST_ROWS).map((row) => h("tr", {}, columns.map((column) => h(`td.${kinds[column]}`, {}, scalar(row[column])))));
  const more = rows.length > MOST_ROWS && h("p.faint", {}, `${rows.length - MOST_ROWS} more rows are in the JSON.`);
  return scrollingTable(head, body, more);
}

function scalar(/** @type {unknown} */ value) {
  if (value === null || value === undefined) return h("span.faint", {}, "—");
  if (typeof value === "boolean") return h("span", {}, value ? "yes" : "no");
  if (typeof value === "number") return h("span.number", {}, String(value));
  return h("span.scalar", { dir: "auto" }, visible(String(value)));
}

function humane(/** @type {string} */ name) {
  return name.replaceAll("_", " ");
}
