// Emphasis, code, links and breaks inside one block. The result is plain data; render.js makes the elements.

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const BARE_URL = /^https?:\/\/[^\s<>"'`\u0000-\u001F]+/i;
const ANGLE = /^<((?:https?:\/\/|mailto:)[^\s<>\u0000-\u001F]+)>/i;
const WORD = /[\p{L}\p{N}]/u;
const SPACE = /\s/;
const DEEPEST = 6;

// More than a person writes in one block; such a thing is shown as it is.
const LONGEST = 16_000;

/** Return nodes: {text}, {code}, {br}, {link, href, children}, {mark: "em" | "strong" | "del", children}. */
export function parseInline(source, depth = 0) {
  return source.length > LONGEST ? [{ text: source }] : new Inline(source, depth).parse();
}

/** Return the address when a reader may be sent there (http, https, mailto), else null. */
export function safeHref(address) {
  // Browsers ignore tabs, newlines and control characters inside a scheme, so they go first.
  const bare = address.replace(/[\u0000-\u0020\u007F-\u009F\u200B-\u200F\u2028-\u202E\u2060\uFEFF]/g, "");
  if (!/^(https?:\/\/|mailto:)/i.test(bare)) return null;
  try {
    return new URL(bare).href;
  } catch {
    return null;
  }
}

class Inline {
  constructor(source, depth) {
    this.source = source;
    this.depth = depth;
    this.at = 0;
    this.nodes = [];
    this.plain = "";
    this.missing = new Set();
    this.pairs = {};
  }

  parse() {
    while (this.at < this.source.length) this.#step(this.source[this.at]);
    this.#flush();
    return pairMarks(this.nodes);
  }

  #step(char) {
    const taken = this.#special(char);
    if (taken) return;
    this.plain += char;
    this.at += 1;
  }

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
    const fence = /^`+/.exec(this.source.slice(this.at, this.at + 80))[0];
    // Looked for once and not found is not looked for again: a page of backticks stays linear.
    if (this.missing.has(fence.length)) return this.#literal(fence);
    const end = closingFence(this.source, this.at + fence.length, fence.length);
    if (end < 0) {
      this.missing.add(fence.length);
      return this.#literal(fence);
    }
    const inner = this.source.slice(this.at + fence.length, end).replace(/\n/g, " ");
    const trimmed = /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner;
    return this.#push({ code: trimmed }, end + fence.length - this.at);
  }

  #literal(text) {
    this.plain += text;
    this.at += text.length;
    return true;
  }

  #delimiter(char) {
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
  #link(bang) {
    if (this.depth >= DEEPEST) return false;
    const open = this.at + bang;
    const close = this.#closing("[", "]", open);
    const end = close && this.source[close + 1] === "(" && this.#closing("(", ")", close + 1);
    if (!end) return false;
    const target = this.source.slice(close + 2, end).trim().replace(/\s+(".*"|'.*'|\(.*\))$/s, "").replace(/^<(.*)>$/s, "$1");
    const href = safeHref(target);
    if (!href) return false;
    const children = parseInline(this.source.slice(open + 1, close) || target, DEEPEST);
    return this.#push({ link: true, href, children: bang ? [{ text: "image: " }, ...children] : children }, end + 1 - this.at);
  }

  // Every bracket finds its other half in one pass, so that a page of brackets stays linear.
  #closing(left, right, open) {
    this.pairs[left] ??= pairsOf(this.source, left, right);
    return this.pairs[left].get(open);
  }

  #angle() {
    const found = ANGLE.exec(this.source.slice(this.at, this.at + 2048));
    const href = found && safeHref(found[1]);
    return href ? this.#push({ link: true, href, children: [{ text: found[1] }] }, found[0].length) : false;
  }

  #bareUrl() {
    if (this.depth >= DEEPEST || WORD.test(this.source[this.at - 1] ?? " ")) return false;
    const found = BARE_URL.exec(this.source.slice(this.at, this.at + 2048));
    if (!found) return false;
    const text = trimUrl(found[0]);
    const href = safeHref(text);
    return href ? this.#push({ link: true, href, children: [{ text }] }, text.length) : false;
  }

  #newline() {
    const hard = this.plain.endsWith("  ");
    while (this.plain.endsWith(" ")) this.plain = this.plain.slice(0, -1);
    if (hard) return this.#push({ br: true }, 1);
    this.plain += "\n";
    this.at += 1;
    return true;
  }

  #push(node, length) {
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

// CommonMark's delimiter run rule, without its rule of three.
function pairMarks(nodes) {
  const openers = [];
  for (let i = 0; i < nodes.length; i++) {
    const closer = nodes[i];
    while (closer.char && closer.closes && closer.count > 0) {
      const at = openers.findLastIndex((index) => nodes[index].char === closer.char && nodes[index].count > 0);
      if (at < 0) break;
      i = wrap(nodes, openers[at], i);
      openers.length = nodes[openers[at]].count > 0 ? at + 1 : at;
    }
    if (closer.char && closer.opens && closer.count > 0) openers.push(nodes.indexOf(closer, Math.max(0, i - 1)));
  }
  return nodes.filter((node) => !node.char || node.count > 0).map((node) => (node.char ? { text: node.char.repeat(node.count) } : node));
}

// Puts what stands between opener and closer into one marked node; returns where the closer is now.
function wrap(nodes, open, close) {
  const used = nodes[open].char === "~" || (nodes[open].count > 1 && nodes[close].count > 1) ? 2 : 1;
  const mark = nodes[open].char === "~" ? "del" : used === 2 ? "strong" : "em";
  nodes[open].count -= used;
  nodes[close].count -= used;
  const children = nodes.slice(open + 1, close).filter((node) => !node.char || node.count > 0)
    .map((node) => (node.char ? { text: node.char.repeat(node.count) } : node));
  nodes.splice(open + 1, close - open - 1, { mark, children });
  return open + 2;
}

function closingFence(source, from, length) {
  const runs = /`+/g;
  runs.lastIndex = from;
  for (let found = runs.exec(source); found; found = runs.exec(source)) if (found[0].length === length) return found.index;
  return -1;
}

function pairsOf(source, left, right) {
  const pairs = new Map();
  const open = [];
  for (let i = 0; i < source.length; i++) {
    if (source[i] === "\\") i += 1;
    else if (source[i] === left) open.push(i);
    else if (source[i] === right && open.length) pairs.set(open.pop(), i);
  }
  return pairs;
}

function trimUrl(url) {
  let end = url.replace(/[.,;:!?*_~]+$/, "");
  while (end.endsWith(")") && count(end, ")") > count(end, "(")) end = end.slice(0, -1).replace(/[.,;:!?*_~]+$/, "");
  return end;
}

function count(text, char) {
  return text.split(char).length - 1;
}
