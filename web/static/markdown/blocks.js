// Lines into blocks. A block is plain data and remembers its own source, so that a growing text keeps only its last one open.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const DELIMITER_ROW = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 5;
// No paragraph is longer than about this: what is parsed and laid out at once stays small.
const LONGEST = 8000;

/** Return the blocks of a source: {kind, source, ...}, in order. */
export function parseBlocks(source, depth = 0) {
  const lines = source.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    block.source = lines.slice(at, next).join("\n");
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: line.slice(heading[0].length).trim().replace(/(^| )#+$/, "") }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (QUOTE.test(line) && depth < DEEPEST) return readQuote(lines, at, depth);
  if (ITEM.test(line) && depth < DEEPEST) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function readFence(lines, at, [, marker, info]) {
  const closer = new RegExp(`^ {0,3}\\${marker[0]}{${marker.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !closer.test(lines[end])) end += 1;
  const closed = end < lines.length;
  const text = lines.slice(at + 1, end).join("\n");
  return [{ kind: "code", language: info.trim().split(/\s+/)[0], text, closed, closer }, closed ? end + 1 : end];
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, "")).join("\n");
  return [{ kind: "quote", blocks: parseBlocks(inner, depth + 1) }, end];
}

function readList(lines, at, depth) {
  const [, indent, marker] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(marker);
  const same = (line) => {
    const found = ITEM.exec(line);
    return found && found[1].length <= indent.length + 1 && /\d/.test(found[2]) === ordered && (ordered || found[2] === marker) && !RULE.test(line);
  };
  const items = [];
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
  return [{ kind: "list", ordered, start: ordered ? parseInt(marker, 10) : 1, items, lastItem }, end];
}

// An item goes on over indented lines, and over plain lines that no blank line parts from it.
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
    if (/^\s{2,}/.test(line)) continue;
    if (blankBefore || startsBlock(line)) break;
  }
  return end;
}

function itemText(lines) {
  const width = ITEM.exec(lines[0])[0].length;
  const first = lines[0].slice(width);
  const strip = new RegExp(`^\\s{0,${Math.max(2, Math.min(width, 6))}}`);
  return [first, ...lines.slice(1).map((line) => line.replace(strip, ""))].join("\n");
}

function isTable(lines, at) {
  const next = lines[at + 1];
  return lines[at].includes("|") && next !== undefined && next.includes("-") && DELIMITER_ROW.test(next) && cells(next).length === cells(lines[at]).length;
}

function readTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim() !== "") end += 1;
  const head = cells(lines[at]);
  const align = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  return [{ kind: "table", head, align, rows: lines.slice(at + 2, end).map(cells), headSource: `${lines[at]}\n${lines[at + 1]}` }, end];
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readParagraph(lines, at, depth) {
  let end = at + 1;
  let size = lines[at].length;
  const goesOn = (line) => line.trim() !== "" && !(startsBlock(line) && depth < DEEPEST) && !isTable(lines, end);
  while (end < lines.length && size < LONGEST && goesOn(lines[end])) size += lines[end++].length;
  return [{ kind: "paragraph", text: lines.slice(at, end).map((line) => line.trimStart()).join("\n") }, end];
}

// A number in the middle of a paragraph is a list only when it is 1, as CommonMark has it.
function startsBlock(line) {
  const item = ITEM.exec(line);
  if (item) return (!/\d/.test(item[2]) || parseInt(item[2], 10) === 1) && item[3] !== "";
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}
