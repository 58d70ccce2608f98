// @ts-check
// Lines into blocks. A block is plain data and remembers its own source, so that a growing text keeps only its last one open.

import { cellsOf, closesFence, fenceOf, headingOf, isDelimiterRow, isQuote, isRule, itemOf, unquoted } from "./lines.js";

/** @typedef {import("./lines.js").Item} Item */
/** @typedef {"left" | "center" | "right"} Align */
/** @typedef {{kind: "paragraph", text: string} | {kind: "heading", level: number, text: string} | {kind: "rule"} | {kind: "quote", blocks: Block[]}} Simple */
/** @typedef {{kind: "code", language: string, text: string, closed: boolean, marker: string}} Code */
/** @typedef {{kind: "list", ordered: boolean, first: number, items: Block[][], lastItem: string}} List */
/** @typedef {{kind: "table", head: string[], align: Align[], rows: string[][], lastRow: string, headSource: string}} Table */
/** @typedef {Simple | Code | List | Table} Read A block as its lines say it. */
/** @typedef {Read & {source: string, start: number, closed?: boolean}} Block Only code may be `closed`. */
/** @typedef {(lines: string[], at: number, depth: number) => [block: Read, next: number]} Reader Returns the block that begins in a line, and where the next one may. */

const DEEPEST = 5;
// No paragraph is longer than about this: what is parsed and laid out at once stays small.
const LONGEST = 8000;

/** @type {(text: string, depth?: number) => Block[]} Returns the blocks of a text: {kind, source, start, ...}, in order; `start` is where in the text a block begins. */
export function parseBlocks(text, depth = 0) {
  const lines = text.split("\n");
  /** @type {Block[]} */
  const blocks = [];
  for (let at = 0, start = 0; at < lines.length; ) {
    if (lines[at].trim() === "") {
      start += lines[at].length + 1;
      at += 1;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    const source = lines.slice(at, next).join("\n");
    blocks.push(Object.assign(block, { source, start }));
    start += source.length + 1;
    at = next;
  }
  return blocks;
}

/** @type {Reader} */
function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = fenceOf(line);
  if (fence) return readFence(lines, at, fence);
  const heading = headingOf(line);
  if (heading) return [{ kind: "heading", ...heading }, at + 1];
  if (isRule(line)) return [{ kind: "rule" }, at + 1];
  if (isQuote(line) && depth < DEEPEST) return readQuote(lines, at, depth);
  if (itemOf(line) && depth < DEEPEST) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

/** @type {(lines: string[], at: number, fence: {marker: string, info: string}) => [Code, number]} */
function readFence(lines, at, { marker, info }) {
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end], marker)) end += 1;
  const closed = end < lines.length;
  // With the end of each line that has one, so that the text of an open fence can be appended to it.
  const text = lines.slice(at + 1, end).join("\n") + (closed && end > at + 1 ? "\n" : "");
  return [{ kind: "code", language: info.split(/\s/, 1)[0], text, closed, marker }, closed ? end + 1 : end];
}

/** @type {Reader} */
function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && isQuote(lines[end])) end += 1;
  const inner = lines.slice(at, end).map(unquoted).join("\n");
  return [{ kind: "quote", blocks: parseBlocks(inner, depth + 1) }, end];
}

/** @type {Reader} */
function readList(lines, at, depth) {
  const { indent, marker, ordered } = /** @type {Item} */ (itemOf(lines[at]));
  const same = (/** @type {string} */ line) => {
    const found = itemOf(line);
    return found && found.indent <= indent + 1 && found.ordered === ordered && (ordered || found.marker === marker) && !isRule(line);
  };
  /** @type {Block[][]} */
  const items = [];
  /** @type {number[]} */
  const starts = [];
  let end = at;
  while (end < lines.length && same(lines[end])) {
    const next = endOfItem(lines, end, same);
    starts.push(end);
    items.push(parseBlocks(itemText(lines.slice(end, next)), depth + 1));
    end = next;
  }
  while (end > at && lines[end - 1].trim() === "") end -= 1;
  const lastItem = lines.slice(starts.at(-1), end).join("\n");
  return [{ kind: "list", ordered, first: ordered ? parseInt(marker, 10) : 1, items, lastItem }, end];
}

// An item continues over indented lines, and over plain lines that no blank line parts from it.
/** @type {(lines: string[], at: number, same: (line: string) => boolean | null) => number} */
function endOfItem(lines, at, same) {
  let end = at + 1;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const blankBefore = lines[end - 1].trim() === "";
    if (line.trim() === "") {
      if (blankBefore) break;
      continue;
    }
    if (same(line)) break;
    if (indentOf(line) > 1) continue;
    if (blankBefore || startsBlock(line)) break;
  }
  return end;
}

/** @type {(lines: string[]) => string} */
function itemText(lines) {
  const { width } = /** @type {Item} */ (itemOf(lines[0]));
  const most = Math.max(2, Math.min(width, 6));
  return lines.map((line, i) => (i === 0 ? line.slice(width) : line.slice(Math.min(most, indentOf(line))))).join("\n");
}

/** @type {(line: string) => number} */
function indentOf(line) {
  return line.length - line.trimStart().length;
}

/** @type {(lines: string[], at: number) => boolean} */
function isTable(lines, at) {
  const next = lines[at + 1];
  return lines[at].includes("|") && next !== undefined && isDelimiterRow(next) && cellsOf(next).length === cellsOf(lines[at]).length;
}

/** @type {(lines: string[], at: number) => [Table, number]} */
function readTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim() !== "") end += 1;
  const head = cellsOf(lines[at]);
  const align = cellsOf(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  return [{ kind: "table", head, align, rows: lines.slice(at + 2, end).map(cellsOf), lastRow: lines[end - 1], headSource: `${lines[at]}\n${lines[at + 1]}` }, end];
}

/** @type {Reader} */
function readParagraph(lines, at, depth) {
  let end = at + 1;
  let size = lines[at].length;
  const goesOn = (/** @type {string} */ line) => line.trim() !== "" && !(startsBlock(line) && depth < DEEPEST) && !isTable(lines, end);
  while (end < lines.length && size < LONGEST && goesOn(lines[end])) size += lines[end++].length;
  return [{ kind: "paragraph", text: lines.slice(at, end).map((line) => line.trimStart()).join("\n") }, end];
}

// A number in the middle of a paragraph is a list only when it is 1, as CommonMark has it.
/** @type {(line: string) => boolean} */
function startsBlock(line) {
  const item = itemOf(line);
  if (item) return (!item.ordered || parseInt(item.marker, 10) === 1) && !item.empty;
  return Boolean(fenceOf(line) || headingOf(line)) || isRule(line) || isQuote(line);
}
