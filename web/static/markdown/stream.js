// @ts-check
// A growing text as Markdown. Blocks that are whole are made once; only the last one is made again, at most once a frame.

import { h } from "../dom/h.js";
import { visible } from "../dom/visible.js";
import { parseBlocks } from "./blocks.js";
import { closesFence, wholeAt } from "./lines.js";
import { CodeBlock, renderBlock } from "./render.js";

/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {{view: CodeBlock, marker: string | null, isInLine: boolean}} Fence The code that the text has come to; nothing closes it without a marker. */

// A block longer than this is cut, so that what is made again each frame stays small whatever a model writes.
const LONGEST = 6000;
// Blocks that are laid out; the rest of a longer answer is shown as plain text.
const MOST_BLOCKS = 4000;
// Line ends after which no block continues: its own, and two empty lines.
const FINAL_ENDS = 3;

/** `append` text in pieces of any size, `paint` when a frame comes, `finish` when it is whole. */
export class MarkdownStream {
  /** @type {string[]} */
  #waiting = [];
  #tail = "";
  /** @type {Element[]} */
  #tailNodes = [];
  /** @type {Fence | null} */
  #fence = null;
  #dirty = false;
  #kept = 0;

  constructor(element = h("div.prose")) {
    this.element = element;
  }

  append(/** @type {string} */ text) {
    this.#waiting.push(text);
    this.#dirty = true;
  }

  /** Bring the element up to date. */
  paint() {
    if (!this.#dirty) return;
    this.#dirty = false;
    const text = this.#waiting.join("");
    // The second half of a line end may be in the next piece.
    const end = text.length - (text.endsWith("\r") ? 1 : 0);
    this.#waiting = end < text.length ? ["\r"] : [];
    this.#take(text.slice(0, end));
  }

  finish() {
    this.#take(this.#waiting.join(""));
    this.#waiting = [];
    if (this.#fence) this.#leaveFence(this.#fence, this.#tail, "");
    return this;
  }

  #take(/** @type {string} */ text) {
    this.#tail += text.replaceAll("\r\n", "\n").replaceAll("\0", "\uFFFD");
    this.#settle();
    this.#showTail();
  }

  // Makes final every block that later lines cannot change.
  #settle() {
    for (let before = -1; before !== this.#tail.length; ) {
      before = this.#tail.length;
      if (this.#fence) this.#settleFence(this.#fence);
      else this.#settleBlocks();
    }
  }

  // Where a block ends or is cut depends on the text alone, never on its pieces: a reload shows the same.
  #settleBlocks() {
    const end = endOfLines(this.#tail);
    const blocks = parseBlocks(this.#tail.slice(0, end));
    const [first, second] = blocks;
    if (!first && end > 0) this.#tail = this.#tail.slice(end);
    else if (first && this.#kept >= MOST_BLOCKS) this.#openFence("too long for a layout", null, this.#tail.slice(first.start));
    else if (second) this.#keepWhole(blocks);
    else if (first?.kind === "code" && !first.closed) this.#openFence(first.language, first.marker, first.text + this.#tail.slice(end));
    else if (first && isFinal(first, this.#tail.slice(0, end))) this.#finishBlock(first, end);
    else if (first?.source.length > LONGEST) this.#cut(first);
    else if (this.#tail.length > end + LONGEST && !lineIn(this.#tail, end)) this.#cutLine(end);
  }

  // The last block of several is still open.
  #keepWhole(/** @type {Block[]} */ blocks) {
    const room = Math.min(blocks.length - 1, MOST_BLOCKS - this.#kept);
    for (const block of blocks.slice(0, room)) this.#keep(renderBlock(block));
    this.#tail = this.#tail.slice(blocks[room].start);
  }

  #finishBlock(/** @type {Block} */ block, /** @type {number} */ end) {
    this.#keep(renderBlock(block));
    this.#tail = this.#tail.slice(end);
  }

  // One endless line: what is there is shown as a paragraph of its own.
  #cutLine(/** @type {number} */ from) {
    const space = this.#tail.lastIndexOf(" ", from + LONGEST);
    const at = space > from ? space + 1 : wholeAt(this.#tail, from + LONGEST);
    this.#keepCut(this.#tail.slice(0, at));
    this.#tail = this.#tail.slice(at);
  }

  #cut(/** @type {Block} */ block) {
    const [done, open] = halves(block);
    this.#keepCut(done);
    this.#tail = open + this.#tail.slice(block.start + block.source.length);
  }

  #keepCut(/** @type {string} */ source) {
    const parts = parseBlocks(source).map(renderBlock);
    parts.at(-1)?.classList.add("is-cut");
    for (const part of parts) this.#keep(part);
  }

  #openFence(/** @type {string} */ language, /** @type {string | null} */ marker, /** @type {string} */ text) {
    const fence = (this.#fence = { view: new CodeBlock(language), marker, isInLine: false });
    this.#keep(fence.view.element);
    this.#tail = text;
    this.#settleFence(fence);
  }

  #settleFence(/** @type {Fence} */ fence) {
    let from = 0;
    for (let end = this.#tail.indexOf("\n"); end >= 0; end = this.#tail.indexOf("\n", from)) {
      if (closes(fence, this.#tail.slice(from, end))) {
        return this.#leaveFence(fence, this.#tail.slice(0, from), this.#tail.slice(end + 1));
      }
      fence.isInLine = false;
      from = end + 1;
    }
    // A line too long to wait for its end.
    if (this.#tail.length > from + LONGEST) {
      fence.isInLine = true;
      from = this.#tail.length;
    }
    fence.view.append(this.#tail.slice(0, from));
    this.#tail = this.#tail.slice(from);
  }

  /** @type {(fence: Fence, code: string, rest: string) => void} */
  #leaveFence(fence, code, rest) {
    if (code && !closes(fence, code)) fence.view.append(code);
    this.#fence = null;
    this.#tail = rest;
    this.#clearTail();
  }

  #showTail() {
    this.#clearTail();
    if (this.#fence) return this.#showLine(this.#fence);
    const nodes = parseBlocks(this.#tail).map(renderBlock);
    this.element.append(...nodes);
    this.#tailNodes = nodes;
  }

  #showLine(/** @type {Fence} */ fence) {
    if (!this.#tail || closes(fence, this.#tail)) return;
    const line = h("span.piece", {}, visible(this.#tail));
    fence.view.code.append(line);
    this.#tailNodes = [line];
  }

  #clearTail() {
    for (const node of this.#tailNodes) node.remove();
    this.#tailNodes = [];
  }

  #keep(/** @type {Element} */ element) {
    this.#clearTail();
    this.#kept += 1;
    this.element.append(element);
  }
}

/** @type {(text: string) => HTMLElement} Returns an element with the whole text as Markdown. */
export function renderMarkdown(text) {
  const stream = new MarkdownStream();
  stream.append(text);
  return stream.finish().element;
}

// Returns where the lines end that are parsed together: not far behind the end of a block that is cut, and before an endless line.
/** @type {(text: string) => number} */
function endOfLines(text) {
  let end = 0;
  for (let line = lineIn(text, end); line; line = lineIn(text, end)) {
    end += line.length;
    if (end > LONGEST + 1 && line.trim()) break;
  }
  return end;
}

// Returns the line that begins there, with its end; "" where it has none yet, and for an endless one.
/** @type {(text: string, from: number) => string} */
function lineIn(text, from) {
  const most = text.slice(from, from + LONGEST + 1);
  return most.slice(0, most.indexOf("\n") + 1);
}

/** @type {(fence: Fence, line: string) => boolean} */
function closes({ marker, isInLine }, line) {
  return !isInLine && closesFence(line, marker);
}

/** @type {(block: Block, text: string) => boolean} */
function isFinal(block, text) {
  return block.closed || text.slice(block.start + block.source.length).split("\n").length > FINAL_ENDS;
}

// Returns the part of a long block that is made final, and the text with which its rest begins.
/** @type {(block: Block) => [done: string, open: string]} */
function halves(block) {
  const { source } = block;
  if (block.kind === "list" && block.items.length > 1) {
    const { first, items, lastItem } = block;
    return [source.slice(0, -lastItem.length), block.ordered ? lastItem.replace(/\d+/, `${Math.min(first + items.length - 1, 999_999_999)}`) : lastItem];
  }
  const repeatsHead = block.kind === "table" && block.rows.length > 1 && block.headSource.length < LONGEST / 2;
  return repeatsHead ? [source.slice(0, -block.lastRow.length), `${block.headSource}\n${block.lastRow}`] : [source, ""];
}
