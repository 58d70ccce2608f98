// A growing text as Markdown. Blocks that are whole are made once; only the last one is made again, at most once a frame.

import { h } from "../dom/h.js";
import { visible } from "../dom/visible.js";
import { parseBlocks } from "./blocks.js";
import { closesFence } from "./lines.js";
import { CodeBlock, renderBlock } from "./render.js";

// A block longer than this is cut, so that what is made again each frame stays small whatever a model writes.
const LONGEST = 6000;
// Blocks that are laid out; the rest of a longer answer is shown as plain text.
const MOST_BLOCKS = 4000;
// Characters that are parsed at once: the open block is parsed again each time and has to stay short.
const GULP = 65_536;
// More line ends than these change nothing.
const MOST_BLANKS = 3;

/** `append` text in pieces of any size, `paint` when a frame comes, `finish` when it is whole. */
export class MarkdownStream {
  #waiting = [];
  #tail = "";
  #tailNodes = [];
  #fence = null;
  #dirty = false;
  #kept = 0;

  constructor(element = h("div.prose")) {
    this.element = element;
  }

  append(text) {
    this.#waiting.push(text);
    this.#dirty = true;
  }

  /** Bring the element up to date. */
  paint() {
    if (!this.#dirty) return;
    this.#dirty = false;
    const text = this.#waiting.join("").replaceAll("\r\n", "\n").replaceAll("\0", "\uFFFD");
    this.#waiting = [];
    for (let at = 0; at === 0 || at < text.length; at += GULP) {
      this.#tail += text.slice(at, at + GULP);
      this.#settle();
    }
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
      if (this.#kept >= MOST_BLOCKS && !this.#fence) this.#openFence("too long for a layout", null);
      if (this.#fence) this.#settleFence();
      else this.#settleBlocks();
    }
  }

  #settleBlocks() {
    const end = this.#tail.lastIndexOf("\n") + 1;
    if (end < this.#tail.length - LONGEST) return this.#cutLine(end);
    const blocks = parseBlocks(this.#tail.slice(0, end));
    const last = blocks.pop();
    const rest = this.#tail.slice(end);
    if (!last) {
      this.#tail = rest;
      return;
    }
    const room = Math.max(0, MOST_BLOCKS - this.#kept);
    for (const block of blocks.slice(0, room)) this.#keep(renderBlock(block));
    if (blocks.length > room) {
      this.#tail = [...blocks.slice(room), last].map((block) => `${block.source}\n`).join("\n") + rest;
      return;
    }
    if (last.kind === "code") this.#enterFence(last, rest);
    else this.#tail = this.#cut(last, blanksAfter(this.#tail, end)) + rest;
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
    this.#openFence(block.language, block.marker);
    this.#tail = (block.text ? `${block.text}\n` : "") + rest;
  }

  #openFence(language, marker) {
    this.#fence = { view: new CodeBlock(language), marker };
    this.#keep(this.#fence.view.element);
  }

  #settleFence() {
    let from = 0;
    for (let end = this.#tail.indexOf("\n"); end >= 0; end = this.#tail.indexOf("\n", from)) {
      if (this.#closes(this.#tail.slice(from, end))) {
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
    if (code && !this.#closes(code)) this.#fence.view.append(code);
    this.#fence = null;
    this.#clearTail();
  }

  #closes(line) {
    return closesFence(line, this.#fence.marker);
  }

  #showTail() {
    this.#clearTail();
    if (this.#fence) return this.#showLine();
    const nodes = parseBlocks(this.#tail).map(renderBlock);
    this.element.append(...nodes);
    this.#tailNodes = nodes;
  }

  #showLine() {
    if (!this.#tail || this.#closes(this.#tail)) return;
    const line = h("span.piece", {}, visible(this.#tail));
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
function blanksAfter(text, end) {
  let lines = 0;
  for (let at = end - 1; at >= 0 && lines < MOST_BLANKS && text[at].trim() === ""; at--) if (text[at] === "\n") lines += 1;
  return "\n".repeat(Math.max(1, lines));
}
