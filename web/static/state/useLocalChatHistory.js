// @ts-check
// What this browser remembers of its conversations: the server's thread is the truth, this is the first paint and
// the cursor to continue from. Losing it loses nothing.

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} Store */
/** @typedef {{thread_id: string, title?: string, agent?: string, stories: {run_id?: string}[]}} Thread A conversation as it is kept. */

const PREFIX = "callboard:1:";
const KEPT_THREADS = 8;
const KEPT_STORIES = 20;
const MOST_CHARS = 250_000;

/** Return {load, save, forget, draft, setDraft, remember, recall}; none of them ever throws. A conversation that has not begun has no id. */
export function useLocalChatHistory(storage = /** @type {Store} */ (browserStorage())) {
  const read = (/** @type {string} */ key) => parse(storage.getItem(PREFIX + key));
  const write = (/** @type {string} */ key, /** @type {unknown} */ value) => attempt(() => storage.setItem(PREFIX + key, JSON.stringify(value)));
  return {
    load: (/** @type {string} */ threadId) => read(`thread:${threadId}`),
    save: (/** @type {string} */ threadId, /** @type {Thread} */ thread) => {
      const text = JSON.stringify(shortened(thread));
      if (text.length > MOST_CHARS) return attempt(() => storage.removeItem(`${PREFIX}thread:${threadId}`));
      makeRoom(storage, read, write, threadId);
      return attempt(() => storage.setItem(`${PREFIX}thread:${threadId}`, text));
    },
    forget: (/** @type {string} */ threadId) => attempt(() => storage.removeItem(`${PREFIX}thread:${threadId}`)),
    draft: (/** @type {string | null | undefined} */ threadId) => read(`draft:${threadId ?? "new"}`) ?? "",
    setDraft: (/** @type {string | null | undefined} */ threadId, /** @type {string} */ text) => (text ? write(`draft:${threadId ?? "new"}`, text) : attempt(() => storage.removeItem(`${PREFIX}draft:${threadId ?? "new"}`))),
    remember: (/** @type {string} */ name, /** @type {unknown} */ value) => write(`choice:${name}`, value),
    recall: (/** @type {string} */ name) => read(`choice:${name}`),
  };
}

/** Forget all conversations, drafts and choices. */
export function forgetHistory(storage = browserStorage()) {
  attempt(() => {
    for (const key of Object.keys(storage).filter((each) => each.startsWith(PREFIX))) storage.removeItem(key);
  });
}

/** @type {(thread: Thread) => Thread & {whole: boolean}} */
function shortened({ thread_id, title, agent, stories }) {
  const kept = stories.filter((story) => story.run_id).slice(-KEPT_STORIES);
  return { thread_id, title, agent, stories: kept, whole: kept.length === stories.length };
}

// The least recently opened threads go first.
/** @type {(storage: Store, read: (key: string) => any, write: (key: string, value: unknown) => void, threadId: string) => void} */
function makeRoom(storage, read, write, threadId) {
  const order = [threadId, ...(read("order") ?? []).filter((/** @type {string} */ id) => id !== threadId)];
  for (const old of order.slice(KEPT_THREADS)) attempt(() => storage.removeItem(`${PREFIX}thread:${old}`));
  write("order", order.slice(0, KEPT_THREADS));
}

/** @type {(text: string | null) => any} */
function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** @type {(work: () => void) => void} */
function attempt(work) {
  try {
    work();
  } catch {
    // Full or forbidden: the page works without.
  }
}

/** @type {() => Store} */
function browserStorage() {
  try {
    localStorage.getItem(PREFIX);
    return localStorage;
  } catch {
    const memory = new Map();
    return { getItem: (key) => memory.get(key) ?? null, setItem: (key, value) => memory.set(key, value), removeItem: (key) => memory.delete(key) };
  }
}
