// @ts-check
// The address names what is shown, so that reload, back and a shared link all work: #/path?query.

import { threadKey, threadOf } from "./state/me.js";

/** @typedef {{name: string, params: Record<string, string>, query: Record<string, string>}} Route */

/** @type {Record<string, string[]>} The patterns of each place: `:name` is one part of the path. The first place is where unknown addresses lead. */
export const PLACES = {
  new: ["/"],
  thread: ["/thread/:threadId", "/thread/:threadId/run/:runId", "/thread/:threadId/of/:owner", "/thread/:threadId/of/:owner/run/:runId"],
  approval: ["/approval/:token"],
  board: ["/board"],
  run: ["/run/:runId"],
  approvals: ["/approvals", "/approvals/:approvalId"],
  fleet: ["/fleet"],
  agents: ["/agents", "/agents/:agentId"],
  tools: ["/tools", "/tools/:name"],
  workflows: ["/workflows", "/workflows/:workflowId"],
  observers: ["/observers", "/observers/:name"],
  audit: ["/audit"],
  keys: ["/keys"],
};

/** The rail: place, title, icon, group. A row whose place has no pattern above is not shown. */
export const RAIL = [
  ["new", "New conversation", "plus", ""],
  ["board", "Board", "board", ""],
  ["approvals", "Approvals", "inbox", ""],
  ["fleet", "Fleet", "fleet", ""],
  ["agents", "Agents", "agent", "Build"],
  ["tools", "Tools", "tool", "Build"],
  ["workflows", "Workflows", "flow", "Build"],
  ["observers", "Observers", "eye", "Admin"],
  ["audit", "Audit", "audit", "Admin"],
  ["keys", "Keys", "key", "Admin"],
].filter(([place]) => place in PLACES);

/**
 * Return the place of an address with its parts and its query; an address that fits no pattern is `unknown`.
 *
 * @param {string} hash
 * @returns {Route}
 */
export function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  for (const [name, patterns] of Object.entries(PLACES)) {
    for (const pattern of patterns) {
      const params = paramsOf(pattern, path || "/");
      if (params) return { name, params, query: Object.fromEntries(new URLSearchParams(query)) };
    }
  }
  return { name: "unknown", params: { path }, query: {} };
}

/**
 * Return the address of a place; parts and values are encoded, and empty values of the query are left out.
 *
 * @param {string} pattern one of a place's patterns
 * @param {Record<string, string | undefined>} [params]
 * @param {Record<string, string | undefined>} [query]
 */
export function addressOf(pattern, params = {}, query = {}) {
  const path = pattern.replace(/:(\w+)/g, (_, name) => encodeURIComponent(params[name] ?? ""));
  const pairs = /** @type {[string, string][]} */ (Object.entries(query).filter(([, value]) => value));
  const words = new URLSearchParams(pairs).toString();
  return `#${path}${words && `?${words}`}`;
}

/**
 * Call `onRoute` now and whenever the address changes.
 *
 * @param {(route: Route) => void} onRoute
 */
export function followAddress(onRoute) {
  addEventListener("hashchange", () => onRoute(routeOf(location.hash)));
  onRoute(routeOf(location.hash));
}

/**
 * Return the address of a thread, or of one run in it.
 *
 * @param {string} key the thread's key in this browser, which names the owner of another principal's thread
 * @param {string} [runId]
 */
export function threadHash(key, runId) {
  const { id: threadId, owner } = threadOf(key);
  return addressOf(`/thread/:threadId${owner ? "/of/:owner" : ""}${runId ? "/run/:runId" : ""}`, { threadId, owner, runId });
}

/**
 * Return the key of the thread that a route names, as the page keeps it.
 *
 * @param {Route} route
 */
export function threadOfRoute({ params: { threadId, owner } }) {
  return threadKey(threadId, owner);
}

/** @type {(pattern: string, path: string) => Record<string, string> | null} */
function paramsOf(pattern, path) {
  const names = pattern.split("/"), parts = path.split("/");
  if (parts.length > names.length && parts.at(-1) === "") parts.pop(); // a slash at the end
  if (names.length !== parts.length) return null;
  /** @type {Record<string, string>} */
  const params = {};
  for (const [i, name] of names.entries()) {
    if (name.startsWith(":") && parts[i]) params[name.slice(1)] = decoded(parts[i]);
    else if (name !== parts[i]) return null;
  }
  return params;
}

/** @type {(part: string) => string} */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a `%` that its author typed
  }
}
