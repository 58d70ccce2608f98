// @ts-check
// Emphasis, code, links and breaks inside one block, each character read a bounded number of times. The result is plain data; render.js makes the elements.

import { pairMarks } from "./emphasis.js";

/** @typedef {import("./emphasis.js").Run} Run */
/** @typedef {{text: string} | {code: string} | {br: true} | Link | Marked} InlineNode */
/** @typedef {{link: true, href: string, children: InlineNode[]}} Link */
/** @typedef {{mark: "em" | "strong" | "del", children: InlineNode[], depth: number}} Marked */

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const BARE_URL = /^https?:\/\/[^\s<>"'`\u0000-\u001F]+/i;
const ANGLE = /^<((?:https?:\/\/|mailto:)[^\s<>\u0000-\u001F]+)>/i;
const WORD = /[\p{L}\p{N}]/u;
const SPACE = /\s/;
const PUNCTUATION = ".,;:!?*_~";
/** @type {Record<string, string>} */
const TITLE_END = { '"': '"', "'": "'", "(": ")" };
const DEEPEST = 6;

// More than a person writes in one block; such a thing is shown as it is.
const LONGEST = 16_000;

/** @type {(source: string, depth?: number) => InlineNode[]} Returns the nodes of a text. */
export function parseInline(source, depth = 0) {
  return source.length > LONGEST ? [{ text: source }] : new Inline(source, depth).parse();
}

/** @type {(address: string) => string | null} Returns the address when a reader may be sent there (http, https, mailto; without a login, which hides the host), else null. */
export function safeHref(address) {
  // Browsers ignore tabs, newlines and control characters inside a scheme, so they go first.
  const bare = address.replace(/[\u0000-\u0020\u007F-\u009F\u200B-\u200F\u2028-\u202E\u2060\uFEFF]/g, "");
  if (!/^(https?:\/\/|mailto:)/i.test(bare)) return null;
  try {
    const url = new URL(bare);
    return url.username || url.password ? null : url.href;
  } catch {
    return null;
  }
}

class Inline {
  constructor(/** @type {string} */ source, /** @type {number} */ depth) {
    this.source = source;
    this.depth = depth;
    this.at = 0;
    /** @type {(InlineNode | Run)[]} */
    this.nodes = [];
    this.plain = "";
    /** @type {Set<number>} */
    this.missing = new Set();
    /** @type {Record<string, Map<number, number>>} */
    this.pairs = {};
    this.noUrlBefore = 0;
  }

  parse() {
    while (this.at < this.source.length) this.#step(this.source[this.at]);
    this.#flush();
    return pairMarks(this.nodes);
  }

  #step(/** @type {string} */ char) {
    const taken = this.#special(char);
    if (taken) return;
    this.plain += char;
    this.at += 1;
  }

  /** @type {(char: string) => boolean} Returns whether the character began something, which has been read. */
  #special(char) {
    switch (char) {
      case "\\": return this.#escape();
      case "`": return this.#code();
      case "*": case "_": case "~": return this.#delimiter(char);
      case "!": return this.source[this.at + 1] === "[" && this.#link(1);
      case "[": return this.#link(0);
      case "<": return this.#angle();
      case "h": case "H": return this.#bareUrl();
      case "\n": return this.#newline();
      default: return false;
    }
  }

  #escape() {
    const next = this.source[this.at + 1];
    if (next === "\n") return this.#push({ br: true }, 2);
    if (!next || !ESCAPABLE.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  #code() {
    const [fence] = /** @type {RegExpExecArray} */ (/^`+/.exec(this.source.slice(this.at, this.at + 80)));
    // Looked for once and not found is not looked for again: a page of backticks stays linear.
    if (this.missing.has(fence.length)) return this.#literal(fence);
    const end = closingFence(this.source, this.at + fence.length, fence.length);
    if (end < 0) {
      this.missing.add(fence.length);
      return this.#literal(fence);
    }
    const inner = this.source.slice(this.at + fence.length, end).replace(/\n/g, " ");
    const padded = inner.startsWith(" ") && inner.endsWith(" ") && /[^ ]/.test(inner);
    return this.#push({ code: padded ? inner.slice(1, -1) : inner }, end + fence.length - this.at);
  }

  #literal(/** @type {string} */ text) {
    this.plain += text;
    this.at += text.length;
    return true;
  }

  #delimiter(/** @type {Run["char"]} */ char) {
    let count = 1;
    while (this.source[this.at + count] === char) count += 1;
    if (char === "~" && count !== 2) return this.#literal(char.repeat(count));
    const before = this.source[this.at - 1] ?? " ";
    const after = this.source[this.at + count] ?? " ";
    const opens = !SPACE.test(after) && (WORD.test(after) || !WORD.test(before));
    const closes = !SPACE.test(before) && (WORD.test(before) || !WORD.test(after));
    const inside = char === "_" && WORD.test(before) && WORD.test(after);
    return this.#push({ char, count, opens: opens && !inside, closes: closes && !inside }, count);
  }

  // An image becomes a link to it: nothing is fetched unless the reader clicks.
  #link(/** @type {0 | 1} */ bang) {
    if (this.depth >= DEEPEST) return false;
    const open = this.at + bang;
    const close = this.#closing("[", "]", open);
    const end = close && this.source[close + 1] === "(" && this.#closing("(", ")", close + 1);
    if (!end) return false;
    // No address holds a link; without this, links inside one another are each read to the end.
    const nested = this.source.indexOf("](", close + 2);
    if (nested >= 0 && nested < end) return false;
    const target = addressIn(this.source.slice(close + 2, end));
    const href = safeHref(target);
    if (!href) return false;
    const children = parseInline(this.source.slice(open + 1, close) || target, DEEPEST);
    return this.#push({ link: true, href, children: bang ? [{ text: "image: " }, ...children] : children }, end + 1 - this.at);
  }

  // Every bracket finds its other half in one pass, so that a page of brackets stays linear.
  #closing(/** @type {string} */ left, /** @type {string} */ right, /** @type {number} */ open) {
    this.pairs[left] ??= pairsOf(this.source, left, right);
    return this.pairs[left].get(open);
  }

  #angle() {
    const found = ANGLE.exec(this.source.slice(this.at, this.at + 2048));
    const href = found && safeHref(found[1]);
    return href ? this.#push({ link: true, href, children: [{ text: found[1] }] }, found[0].length) : false;
  }

  #bareUrl() {
    if (this.depth >= DEEPEST || this.at < this.noUrlBefore || WORD.test(this.source[this.at - 1] ?? " ")) return false;
    const found = BARE_URL.exec(this.source.slice(this.at, this.at + 2048));
    if (!found) return false;
    const text = trimUrl(found[0]);
    const href = safeHref(text);
    // What is no address holds none either: looked at once.
    if (!href) this.noUrlBefore = this.at + found[0].length;
    return href ? this.#push({ link: true, href, children: [{ text }] }, text.length) : false;
  }

  #newline() {
    let end = this.plain.length;
    while (this.plain[end - 1] === " ") end -= 1;
    const hard = this.plain.length - end > 1;
    this.plain = this.plain.slice(0, end);
    return this.#push(hard ? { br: true } : { text: "\n" }, 1);
  }

  #push(/** @type {InlineNode | Run} */ node, /** @type {number} */ length) {
    this.#flush();
    this.nodes.push(node);
    this.at += length;
    return true;
  }

  #flush() {
    if (this.plain) this.nodes.push({ text: this.plain });
    this.plain = "";
  }
}

/** @type {(source: string, from: number, length: number) => number} Returns where the code ends, or -1. */
function closingFence(source, from, length) {
  const runs = /`+/g;
  runs.lastIndex = from;
  for (let found = runs.exec(source); found; found = runs.exec(source)) if (found[0].length === length) return found.index;
  return -1;
}

/** @type {(source: string, left: string, right: string) => Map<number, number>} */
function pairsOf(source, left, right) {
  const pairs = new Map();
  /** @type {number[]} */
  const open = [];
  for (let i = 0; i < source.length; i++) {
    if (source[i] === "\\") i += 1;
    else if (source[i] === left) open.push(i);
    else if (source[i] === right && open.length) pairs.set(open.pop(), i);
  }
  return pairs;
}

// What stands in a link's parentheses: an address, perhaps in angle brackets, perhaps with a title, which is not shown.
/** @type {(inside: string) => string} */
function addressIn(inside) {
  const text = inside.trim();
  const title = text.search(/\s["'(]/);
  const titled = title > 0 && title + 2 < text.length && text.endsWith(TITLE_END[text[title + 1]]);
  const address = (titled ? text.slice(0, title) : text).trim();
  return address.startsWith("<") && address.endsWith(">") ? address.slice(1, -1) : address;
}

// Punctuation at the end belongs to the sentence, and so does a bracket that nothing in the address opened.
/** @type {(url: string) => string} */
function trimUrl(url) {
  let surplus = count(url, ")") - count(url, "(");
  let end = url.length;
  for (; end > 0; end--) {
    if (url[end - 1] === ")" && surplus > 0) surplus -= 1;
    else if (!PUNCTUATION.includes(url[end - 1])) break;
  }
  return url.slice(0, end);
}

/** @type {(text: string, char: string) => number} */
function count(text, char) {
  return text.split(char).length - 1;
}
