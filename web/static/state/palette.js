// @ts-check
// What the palette offers for what is typed: each of its words has to be in an entry; those that begin with it come first.

/** @typedef {{key: string, group: string, title: string, note?: string, icon: string, isFound?: boolean, go: () => void}} Entry */

/** Most entries of a group. */
const MOST = 6;
const RUN_ID = /^run_[0-9a-z]{6,}$/;

/**
 * Return the entries that fit, in the order of their groups, the best of each group first. What the server found stays
 * as it is; without words each entry fits.
 *
 * @param {Entry[]} entries
 * @param {string} text
 * @returns {Entry[]}
 */
export function fitting(entries, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = [...new Set(entries.map(({ group }) => group))];
  return groups.flatMap((name) => {
    const ranked = entries.filter(({ group }) => group === name).map((entry) => ({ entry, rank: entry.isFound ? 0 : rankOf(entry, words) }));
    return ranked.filter(({ rank }) => rank >= 0).sort((a, b) => a.rank - b.rank).slice(0, words.length ? MOST : 10).map(({ entry }) => entry);
  });
}

/** Return the id of a run where the text is one. */
export function runIdOf(/** @type {string} */ text) {
  return RUN_ID.test(text.trim()) ? text.trim() : "";
}

// 0: the title begins with the first word; 1: a word of it does; 2: the words are somewhere; -1: they are not.
/** @type {(entry: Entry, words: string[]) => number} */
function rankOf({ title, note = "" }, words) {
  const name = title.toLowerCase(), all = `${name} ${note.toLowerCase()}`;
  if (!words.every((word) => all.includes(word))) return -1;
  if (!words.length || name.startsWith(words[0])) return 0;
  return name.split(/[^\p{L}\p{N}]+/u).some((part) => part.startsWith(words[0])) ? 1 : 2;
}
