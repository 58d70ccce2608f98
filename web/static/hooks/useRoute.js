// The address names what is shown, so that reload, back and a shared link all work.

/** Return {name: "new" | "thread" | "board", threadId?, runId?} for the present address. */
export function readRoute(hash = location.hash) {
  const [, name, threadId, word, runId] = hash.replace(/^#/, "").split("/").map(decode);
  if (name === "board") return { name: "board" };
  if (name === "thread" && threadId) return { name: "thread", threadId, runId: word === "run" ? runId : undefined };
  return { name: "new" };
}

/** Call `onRoute` now and whenever the address changes; returns `replace(hash)`, which changes it silently. */
export function useRoute(onRoute) {
  addEventListener("hashchange", () => onRoute(readRoute()));
  onRoute(readRoute());
  return (hash) => history.replaceState(null, "", hash);
}

/** Return the address of a thread, or of one run in it. */
export function threadHash(threadId, runId) {
  const thread = `#/thread/${encodeURIComponent(threadId)}`;
  return runId ? `${thread}/run/${encodeURIComponent(runId)}` : thread;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
