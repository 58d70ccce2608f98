// The address names what is shown, so that reload, back and a shared link all work.

import { threadKey, threadOf } from "../state/me.js";

/** Return {name: "new" | "thread" | "board" | "approval", threadId?, runId?, token?} for the present address. */
export function readRoute(hash = location.hash) {
  const [, name, threadId, ...rest] = hash.replace(/^#/, "").split("/").map(decode);
  if (name === "board") return { name: "board" };
  if (name === "approval" && threadId) return { name: "approval", token: threadId };
  const owner = rest[0] === "of" ? rest.splice(0, 2)[1] : undefined;
  if (name === "thread" && threadId) return { name: "thread", threadId: threadKey(threadId, owner), runId: rest[0] === "run" ? rest[1] : undefined };
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
  const { id, owner } = threadOf(threadId);
  const thread = `#/thread/${encodeURIComponent(id)}${owner ? `/of/${encodeURIComponent(owner)}` : ""}`;
  return runId ? `${thread}/run/${encodeURIComponent(runId)}` : thread;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
