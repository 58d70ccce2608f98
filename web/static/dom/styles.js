// @ts-check
// Stylesheets that the first load does without.

/** @type {Map<string, Promise<void>>} */
const sheets = new Map();

/**
 * Load a stylesheet once; resolves when it applies, or cannot be had: what it would style is shown in any case.
 *
 * @param {string} path
 * @returns {Promise<void>}
 */
export function addStyles(path) {
  const href = import.meta.resolve(path); // the import map names the file, which many have, by its content
  const known = sheets.get(href);
  if (known) return known;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  const loaded = new Promise((/** @type {(value: void) => void} */ resolve) => {
    link.onload = () => resolve();
    link.onerror = () => (sheets.delete(href), link.remove(), resolve());
  });
  sheets.set(href, loaded);
  document.head.append(link);
  return loaded;
}
