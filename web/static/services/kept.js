// @ts-check
// What this browser keeps of a reader's choices, by name. A sign-out removes it with the conversations.

const PREFIX = "callboard:1:kept:"; // `forgetHistory` removes what begins with callboard:1:

/** @type {Map<string, string>} What the browser had no room for, until the page is closed. */
const memory = new Map();

/**
 * Return what was kept under a name, or undefined; what cannot be read is as if it were not there.
 *
 * @param {string} name
 * @param {Pick<Storage, "getItem">} [storage]
 * @returns {unknown}
 */
export function recalled(name, storage) {
  try {
    const text = memory.get(name) ?? (storage ?? localStorage).getItem(PREFIX + name);
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Keep a value under a name; returns whether it is there after the page is closed, too: the storage may be full or forbidden.
 *
 * @param {string} name
 * @param {unknown} value
 * @param {Pick<Storage, "setItem">} [storage]
 */
export function keep(name, value, storage) {
  const text = JSON.stringify(value);
  try {
    (storage ?? localStorage).setItem(PREFIX + name, text);
    memory.delete(name);
    return true;
  } catch {
    memory.set(name, text);
    return false;
  }
}
