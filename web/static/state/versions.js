// @ts-check
// What the versions of an agent are to a reader.

/** @typedef {{version: number, aliases: Record<string, number>, is_in_file: boolean, created_at: string, promoted: Record<string, {by: string, at: string}>}} Version */

/**
 * Return the number of the version that serves: the one that the agent names, else what its file says; 0 where neither is known.
 *
 * @param {Version[]} versions
 * @param {number} [named]
 */
export function servingOf(versions, named) {
  return named ?? versions.find(({ aliases }) => "stable" in aliases)?.version ?? versions.find(({ is_in_file }) => is_in_file)?.version ?? 0;
}

/**
 * Return the numbers of two versions to compare: what serves, and the canary, else the file's newer one, else the one before.
 *
 * @param {Version[]} versions the newest first
 * @param {number} [named]
 * @returns {[number, number]} the second is 0 where there is no other
 */
export function pairOf(versions, named) {
  const serving = servingOf(versions, named);
  const others = versions.filter(({ version }) => version !== serving);
  const other = others.find(({ aliases }) => "canary" in aliases) ?? others.find(({ is_in_file }) => is_in_file) ?? others.find(({ version }) => version < serving) ?? others[0];
  return [serving, other?.version ?? 0];
}

/**
 * Return what a version is called: `stable`, `canary, 10 % of the threads`, `in its file`.
 *
 * @param {Version} version
 */
export function namesOf({ aliases, is_in_file: isInFile }) {
  const names = Object.entries(aliases).map(([alias, share]) => (share < 100 ? `${alias}, ${share} % of the threads` : alias));
  return [...names, ...(isInFile ? ["in its file"] : [])];
}
