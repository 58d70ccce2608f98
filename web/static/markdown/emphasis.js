// @ts-check
// Delimiter runs into emphasis: CommonMark's rule without its rule of three, in one pass over the nodes.

/** @typedef {import("./inline.js").InlineNode} InlineNode */
/** @typedef {{char: "*" | "_" | "~", count: number, opens: boolean, closes: boolean}} Run A delimiter run. */
/** @typedef {import("./inline.js").Marked} Marked */
/** @typedef {{run: Run, children: InlineNode[], depth: number}} Frame A run that may still be closed, and the nodes that follow it. */
/** @typedef {{run: null, children: InlineNode[], depth: number}} Outside The nodes outside of every run. */

// Marks inside one another than this many are shown as they were written: an element tree has to stay shallow.
const DEEPEST = 16;

/** @type {(nodes: (InlineNode | Run)[]) => InlineNode[]} Returns the nodes with each pair of runs, {char, count, opens, closes}, made one {mark, children}. */
export function pairMarks(nodes) {
  const open = new OpenMarks();
  for (const node of nodes) {
    if (!("char" in node)) open.add(node);
    else open.meet(node);
  }
  return open.finish();
}

// A stack: the nodes outside of everything, then each run that may still be closed with the nodes that follow it.
class OpenMarks {
  /** @type {(Frame | Outside)[]} */
  #frames = [{ run: null, children: [], depth: 0 }];
  // Where in the stack the runs of a character are, so that a closer without an opener is known at once.
  /** @type {Record<Run["char"], number[]>} */
  #openers = { "*": [], _: [], "~": [] };

  add(/** @type {InlineNode} */ node, frame = /** @type {Frame | Outside} */ (this.#frames.at(-1))) {
    frame.children.push(node);
    frame.depth = Math.max(frame.depth, "depth" in node ? node.depth : 0);
  }

  meet(/** @type {Run} */ run) {
    const left = { ...run };
    if (run.closes) while (left.count > 0 && this.#pair(left));
    if (left.count === 0) return;
    if (!run.opens) return this.add(literal(left));
    this.#openers[run.char].push(this.#frames.length);
    this.#frames.push({ run: left, children: [], depth: 0 });
  }

  finish() {
    this.#flatten(1);
    return this.#frames[0].children;
  }

  // Returns whether the closer found an opener.
  #pair(/** @type {Run} */ closer) {
    const at = this.#openers[closer.char].at(-1);
    if (at === undefined) return false;
    this.#flatten(at + 1);
    const frame = /** @type {Frame} */ (this.#frames[at]);
    if (frame.depth >= DEEPEST) return false;
    const used = closer.char === "~" || (frame.run.count > 1 && closer.count > 1) ? 2 : 1;
    const mark = closer.char === "~" ? "del" : used === 2 ? "strong" : "em";
    /** @type {Marked} */
    const node = { mark, children: frame.children, depth: frame.depth + 1 };
    frame.run.count -= used;
    closer.count -= used;
    Object.assign(frame, { children: [node], depth: node.depth });
    if (frame.run.count === 0) this.#leave(node);
    return true;
  }

  #leave(/** @type {Marked} */ node) {
    const { run } = /** @type {Frame} */ (this.#frames.pop());
    this.#openers[run.char].pop();
    this.add(node);
  }

  // Nothing closes the runs from here up: they are text in the one below.
  #flatten(/** @type {number} */ from) {
    const below = this.#frames[from - 1];
    for (const { run, children } of /** @type {Frame[]} */ (this.#frames.splice(from))) {
      this.#openers[run.char].pop();
      this.add(literal(run), below);
      for (const child of children) this.add(child, below);
    }
  }
}

/** @type {(run: Run) => InlineNode} */
function literal({ char, count }) {
  return { text: char.repeat(count) };
}
