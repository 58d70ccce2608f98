// @ts-check
// Blocks and inline nodes into elements. Text only ever becomes text nodes; nothing is fetched.

import { h } from "../dom/h.js";
import { copyButton } from "../dom/copyButton.js";
import { scrollingTable } from "../dom/scrolling.js";
import { visible } from "../dom/visible.js";
import { parseInline } from "./inline.js";
import { wholeAt } from "./lines.js";

/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./inline.js").InlineNode} InlineNode */
/** @template {Block["kind"]} Kind @typedef {Extract<Block, {kind: Kind}>} Of A block of one kind. */

/** @type {(block: Block) => HTMLElement} Returns the element of one block. */
export function renderBlock(block) {
  return /** @type {(block: Block) => HTMLElement} */ (RENDERERS[block.kind])(block);
}

/** @type {{[Kind in Block["kind"]]: (block: Of<Kind>) => HTMLElement}} */
const RENDERERS = {
  paragraph: (block) => h("p", { dir: "auto" }, inline(block.text)),
  // The page's own headings are h1 and h2, so an answer's begin at h3.
  heading: (block) => h(`h${Math.min(6, block.level + 2)}`, { dir: "auto" }, inline(block.text)),
  rule: () => h("hr"),
  quote: (block) => h("blockquote", {}, block.blocks.map(renderBlock)),
  list: (block) => h(block.ordered ? "ol" : "ul", { start: block.ordered && block.first !== 1 ? block.first : null }, block.items.map(listItem)),
  table: renderTable,
  code: (block) => new CodeBlock(block.language).append(block.text).element,
};

/** A fenced block that grows cheaply: text goes into short pieces, so that only the last is laid out again. */
export class CodeBlock {
  #text = "";
  /** @type {Text | null} */
  #piece = null;

  constructor(language = "") {
    const bar = h("div.code-bar", {}, h("span", {}, visible(language.slice(0, 40))), copyButton(() => this.#text));
    this.code = h("code");
    this.element = h("div.code", {}, bar, h("pre", { tabindex: "0", role: "region", "aria-label": "Code" }, this.code));
  }

  append(/** @type {string} */ text) {
    this.#text += text;
    for (const part of inPieces(text)) this.#add(visible(part));
    return this;
  }

  #add(/** @type {string} */ text) {
    const full = this.#piece && this.#piece.length > 4000 && this.#piece.data.endsWith("\n");
    if (!this.#piece || full || this.#piece.length > 16_000) {
      this.#piece = document.createTextNode("");
      this.code.append(h("span.piece", {}, this.#piece));
    }
    this.#piece.appendData(text);
  }
}

/** @type {(text: string, size?: number) => Generator<string, void>} */
function* inPieces(text, size = 4000) {
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at + size);
    const end = newline < 0 || newline > at + size * 3 ? wholeAt(text, Math.min(text.length, at + size)) : newline + 1;
    yield text.slice(at, end);
    at = end;
  }
}

/** @type {(blocks: Block[]) => HTMLElement} */
function listItem(blocks) {
  const task = blocks[0]?.kind === "paragraph" && /^\[([ xX])\]\s+/.exec(blocks[0].text);
  if (task) return taskItem(blocks, task);
  // A tight item is its text; only an item of several blocks has paragraphs.
  if (blocks.length && blocks[0].kind === "paragraph") return h("li", { dir: "auto" }, inline(blocks[0].text), blocks.slice(1).map(renderBlock));
  return h("li", {}, blocks.map(renderBlock));
}

/** @type {(blocks: Block[], task: RegExpExecArray) => HTMLElement} */
function taskItem(blocks, { 0: prefix, 1: state, input }) {
  const done = state !== " ";
  const box = h("span.task", { role: "img", "aria-label": done ? "done" : "open" }, done ? "☑" : "☐");
  return h("li.has-task", {}, box, " ", inline(input.slice(prefix.length)), blocks.slice(1).map(renderBlock));
}

/** @type {(table: Of<"table">) => HTMLElement} */
function renderTable({ head, align, rows }) {
  /** @type {(tag: string, props: import("../dom/h.js").Props, text: string, i: number) => HTMLElement} */
  const cell = (tag, props, text, i) => h(`${tag}.is-${align[i] ?? "left"}`, props, inline(text));
  const row = (/** @type {string[]} */ cells) => h("tr", {}, cells.slice(0, head.length).map((text, i) => cell("td", {}, text, i)), restOfRow(head.length - cells.length));
  const top = h("tr", {}, head.map((text, i) => cell("th", { scope: "col" }, text, i)));
  return scrollingTable(top, rows.map(row));
}

// One cell for all that a short row lacks: a wide head over many short rows would else make the product of both.
/** @type {(missing: number) => HTMLElement | false} */
function restOfRow(missing) {
  return missing > 0 && h("td", { colspan: missing > 1 ? missing : null });
}

/** @type {(text: string) => (string | HTMLElement)[]} */
function inline(text) {
  return parseInline(text).map(renderInline);
}

/** @type {(node: InlineNode) => string | HTMLElement} */
function renderInline(node) {
  if ("text" in node) return visible(node.text);
  if ("code" in node) return h("code", {}, visible(node.code));
  if ("br" in node) return h("br");
  if ("link" in node) return renderLink(node);
  return h(node.mark, {}, node.children.map(renderInline));
}

/** @type {(link: import("./inline.js").Link) => HTMLElement} */
function renderLink({ href, children }) {
  return h("a", { href, title: href, target: "_blank", rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer" }, children.map(renderInline));
}
