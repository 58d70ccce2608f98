// @ts-check
// What kind of line a line is. Each test reads the line once: a text of any shape takes time in proportion to its length.

/** @typedef {{indent: number, marker: string, ordered: boolean, width: number, empty: boolean}} Item The beginning of a list item. */

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE_START = /^ {0,3}[-*_]/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const DELIMITER_CELL = /^:?-+:?$/;
const INDENTED_BY_UP_TO_3 = /^ {0,3}\S/;

/** @type {(line: string) => {marker: string, info: string} | null} Returns the marker and the info of an opening code fence, else null. */
export function fenceOf(line) {
  const found = FENCE.exec(line);
  if (!found) return null;
  const info = line.slice(found[0].length);
  return info.includes("`") ? null : { marker: found[1], info: info.trim() };
}

/** @type {(line: string, marker: string | null) => boolean} True for a line that closes the fence `marker` opened; nothing closes a fence without one. */
export function closesFence(line, marker) {
  if (!marker || !INDENTED_BY_UP_TO_3.test(line)) return false;
  const bare = line.trim();
  return bare.length >= marker.length && isOnly(bare, marker[0]);
}

/** @type {(line: string) => {level: number, text: string} | null} Returns the level and the text of a heading, else null. */
export function headingOf(line) {
  const found = HEADING.exec(line);
  return found && { level: found[1].length, text: line.slice(found[0].length).trim().replace(/(^| )#+$/, "") };
}

/** @type {(line: string) => boolean} True for a line of three or more of one of `-*_`, with any space between them. */
export function isRule(line) {
  if (!RULE_START.test(line)) return false;
  const marks = line.replace(/\s/g, "");
  return marks.length > 2 && isOnly(marks, marks[0]);
}

/** @type {(line: string) => boolean} True for a line of a quotation. */
export function isQuote(line) {
  return QUOTE.test(line);
}

/** @type {(line: string) => string} Returns the line without the quotation's mark. */
export function unquoted(line) {
  return line.replace(QUOTE, "");
}

/** @type {(line: string) => Item | null} Returns a list item's indent, marker and the width of both with the space after them, else null. */
export function itemOf(line) {
  const found = ITEM.exec(line);
  if (!found) return null;
  const [whole, indent, marker, space] = found;
  return { indent: indent.length, marker, ordered: marker.length > 1, width: whole.length, empty: space === "" };
}

/** @type {(line: string) => boolean} True for the row of a table that says how its columns stand. */
export function isDelimiterRow(line) {
  return line.includes("-") && cellsOf(line).every((cell) => DELIMITER_CELL.test(cell));
}

/** @type {(line: string) => string[]} Returns the cells of a row. */
export function cellsOf(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** @type {(text: string, at: number) => number} Returns where a text may be cut: there, or behind the character that would become two halves. */
export function wholeAt(text, at) {
  return /** @type {number} */ (text.codePointAt(at - 1)) > 0xffff ? at + 1 : at;
}

/** @type {(text: string, char: string) => boolean} */
function isOnly(text, char) {
  for (let i = 0; i < text.length; i++) if (text[i] !== char) return false;
  return true;
}
