// A growing text as Markdown. Blocks that are whole are made once; only the last one is made again, at most once a frame.

import { h } from "../dom/h.js";
import { parseBlocks } from "./blocks.js";
import { CodeBlock, renderBlock } from "./render.js";

// A block longer than this is cut, so that what is made again each frame stays small whatever a model writes.
const LONGEST = 6000;
// No answer to be read has more blocks; the rest of one that has is shown as it came.
const MOST_BLOCKS = 4000;
const NEVER = /(?!)/;

/** `append` text in pieces of any size, `paint` when a frame comes, `finish` when it is whole. */
export class MarkdownStream {
  #tail = "";
  #tailNodes = [];
  #fence = null;
  #dirty = false;
  #kept = 0;

  constructor(element = h("div.prose")) {
    this.element = element;
  }

  append(text) {
    this.#tail += text.replaceAll("\r\n", "\n").replaceAll("\0", "\uFFFD");
    this.#dirty = true;
  }

  /** Bring the element up to date. */
  paint() {
    if (!this.#dirty) return;
    this.#dirty = false;
    this.#settle();
    this.#showTail();
  }

  finish() {
    this.#dirty = true;
    this.paint();
    if (this.#fence) this.#leaveFence(this.#tail);
    return this;
  }

  // Makes final every block that later lines cannot change.
  #settle() {
    for (let before = -1; before !== this.#tail.length; ) {
      before = this.#tail.length;
      if (this.#kept >= MOST_BLOCKS && !this.#fence) this.#openFence("too long for a layout", NEVER);
      if (this.#fence) this.#settleFence();
      else this.#settleBlocks();
    }
  }

  #settleBlocks() {
    const end = this.#tail.lastIndexOf("\n") + 1;
    if (end < this.#tail.length - LONGEST) return this.#cutLine(end);
    const blocks = parseBlocks(this.#tail.slice(0, end));
    const last = blocks.pop();
    if (!last) return;
    const rest = this.#tail.slice(end);
    const room = Math.max(0, MOST_BLOCKS - this.#kept);
    for (const block of blocks.slice(0, room)) this.#keep(renderBlock(block));
    if (blocks.length > room) {
      this.#tail = [...blocks.slice(room), last].map((block) => `${block.source}\n`).join("\n") + rest;
      return;
    }
    if (last.kind === "code") this.#enterFence(last, rest);
    else if (blocks.length || last.source.length > LONGEST) this.#tail = this.#cut(last, blankAfter(this.#tail.slice(0, end))) + rest;
  }

  // One endless line: what is there is shown as a paragraph of its own.
  #cutLine(from) {
    const space = this.#tail.lastIndexOf(" ", from + LONGEST);
    const at = space > from ? space + 1 : from + LONGEST;
    for (const block of parseBlocks(this.#tail.slice(0, at))) this.#keep(renderBlock(block), "is-cut");
    this.#tail = this.#tail.slice(at);
  }

  // Returns what stays open of the last block.
  #cut(block, blanks) {
    if (block.source.length <= LONGEST) return block.source + blanks;
    if (block.kind === "list" && block.items.length > 1) return this.#cutList(block) + blanks;
    this.#keep(renderBlock(block), "is-cut");
    return block.kind === "table" ? `${block.headSource}\n` : "";
  }

  #cutList(block) {
    const done = block.source.slice(0, block.source.length - block.lastItem.length);
    for (const part of parseBlocks(done)) this.#keep(renderBlock(part), "is-cut");
    return block.lastItem;
  }

  #enterFence(block, rest) {
    if (block.closed) {
      this.#keep(renderBlock(block));
      this.#tail = rest;
      return;
    }
    this.#openFence(block.language, block.closer);
    this.#tail = (block.text ? `${block.text}\n` : "") + rest;
  }

  #openFence(language, closer) {
    this.#fence = { view: new CodeBlock(language), closer };
    this.#keep(this.#fence.view.element);
  }

  #settleFence() {
    let from = 0;
    for (let end = this.#tail.indexOf("\n"); end >= 0; end = this.#tail.indexOf("\n", from)) {
      if (this.#fence.closer.test(this.#tail.slice(from, end))) {
        const code = this.#tail.slice(0, from);
        this.#tail = this.#tail.slice(end + 1);
        return this.#leaveFence(code);
      }
      from = end + 1;
    }
    this.#fence.view.append(this.#tail.slice(0, from));
    this.#tail = this.#tail.slice(from);
    // A line too long to wait for its end.
    if (this.#tail.length > LONGEST) {
      this.#fence.view.append(this.#tail);
      this.#tail = "";
    }
  }

  #leaveFence(code) {
    if (code && !this.#fence.closer.test(code)) this.#fence.view.append(code);
    this.#fence = null;
    this.#clearTail();
  }

  #showTail() {
    this.#clearTail();
    if (this.#fence) return this.#showLine();
    const nodes = parseBlocks(this.#tail).map(renderBlock);
    this.element.append(...nodes);
    this.#tailNodes = nodes;
  }

  #showLine() {
    if (!this.#tail || this.#fence.closer.test(this.#tail)) return;
    const line = h("span.piece", {}, this.#tail);
    this.#fence.view.code.append(line);
    this.#tailNodes = [line];
  }

  #clearTail() {
    for (const node of this.#tailNodes) node.remove();
    this.#tailNodes = [];
  }

  #keep(element, name) {
    this.#clearTail();
    this.#kept += 1;
    if (name) element.classList.add(name);
    this.element.append(element);
  }
}

/** Return an element with the whole text as Markdown. */
export function renderMarkdown(text) {
  const stream = new MarkdownStream();
  stream.append(text);
  return stream.finish().element;
}

// Blank lines after a block decide whether the next line still belongs to it.
function blankAfter(text) {
  return "\n".repeat(text.length - text.replace(/\n+$/, "").length) || "\n";
}
