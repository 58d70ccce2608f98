// @ts-check
// What differs between two texts, line by line, and between two versions of a definition, field by field.

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Line */

/** Above this product of lines no smallest difference is looked for: the middle is shown as replaced. */
const MOST_PAIRS = 4_000_000;

/**
 * Return the lines of both texts in order: those of one alone are `removed` or `added`, and as few as can be.
 *
 * @param {string} before
 * @param {string} after
 * @returns {Line[]}
 */
export function diffLines(before, after) {
  const [a, b] = [before, after].map((text) => (text === "" ? [] : text.split("\n")));
  let start = 0, end = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)];
}

/**
 * Return the lines with runs of equal ones shortened: `{kind: "gap", count}` stands for those further than `around` from a change.
 *
 * @param {Line[]} lines
 * @returns {(Line | {kind: "gap", count: number})[]}
 */
export function folded(lines, around = 3) {
  const near = lines.map((_, at) => lines.slice(Math.max(0, at - around), at + around + 1).some(({ kind }) => kind !== "same"));
  /** @type {any[]} */
  const parts = [];
  for (const [at, line] of lines.entries()) {
    const last = parts.at(-1);
    if (near[at]) parts.push(line);
    else if (last?.kind === "gap") last.count += 1;
    else parts.push({ kind: "gap", count: 1 });
  }
  return parts;
}

/**
 * Return the fields that two contents differ in, each with its lines; a text is compared as it is, other values as JSON.
 *
 * @param {Record<string, any>} before
 * @param {Record<string, any>} after
 * @returns {{field: string, lines: Line[]}[]}
 */
export function diffFields(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  const changed = names.filter((name) => textOf(before[name]) !== textOf(after[name]) || typeof before[name] !== typeof after[name]);
  return changed.map((field) => ({ field, lines: diffLines(textOf(before[field]), textOf(after[field])) }));
}

// The longest common subsequence, by a table of its lengths; both sides begin and end with another line.
/** @type {(a: string[], b: string[]) => Line[]} */
function between(a, b) {
  if (!a.length || !b.length || a.length * b.length > MOST_PAIRS) return [...a.map(removed), ...b.map(added)];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  /** @type {Line[]} */
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push(same(a[i]));
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) lines.push(removed(a[i++]));
    else lines.push(added(b[j++]));
  }
  return [...lines, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}

/** @type {(value: any) => string} */
function textOf(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** @type {(text: string) => Line} */
const same = (text) => ({ kind: "same", text });
/** @type {(text: string) => Line} */
const removed = (text) => ({ kind: "removed", text });
/** @type {(text: string) => Line} */
const added = (text) => ({ kind: "added", text });
