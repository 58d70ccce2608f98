// @ts-check
// Who the page acts as, as the server says it.

/** @typedef {{tenant: string, principal: string, roles: string[], credential: string, expires_at?: string, display_name?: string}} Me */

/** @type {Me | null} */
let me = null;

/** @type {(found: Me) => void} Notes who the page acts as. */
export function noteMe(found) {
  me = found;
}

/** @type {(principal: string | undefined) => boolean} Returns whether a principal is the reader; false where the server does not say who is reading. */
export function isMe(principal) {
  return Boolean(me && principal === me.principal);
}

/** @type {(principal: string | undefined) => string} Returns whose something is: "you", or another principal. */
export function ownerOf(principal) {
  return isOthers(principal) ? principal : "you";
}

/** @type {(principal: string | undefined) => string} Returns "by adam" where something is another principal's; empty where it is one's own. */
export function ownerWords(principal) {
  return isOthers(principal) ? `by ${principal}` : "";
}

/** @type {(threadId: string, owner?: string) => string} Returns the name that the page has for a thread: principals name their own, so that of another one has its owner. */
export function threadKey(threadId, owner) {
  return isOthers(owner) ? `${owner}\n${threadId}` : threadId;
}

/** @type {(key: string) => {id: string, owner?: string}} Returns what a thread's name stands for. */
export function threadOf(key) {
  const [owner, id] = key.split("\n");
  return id === undefined ? { id: key } : { id, owner };
}

/** @type {(principal: string | undefined) => boolean} Returns whether the reader may stop a principal's run; true where the server does not say who is reading. */
export function mayStop(principal) {
  return mayAsOneOf(["operator", "admin"], principal);
}

/** @type {(principal: string | undefined) => boolean} Returns whether the reader may answer the approvals of a principal's run; true where the server does not say who is reading. */
export function mayDecide(principal) {
  return mayAsOneOf(["approver", "admin"], principal);
}

/** @type {(roles: string[], principal: string | undefined) => boolean} */
function mayAsOneOf(roles, principal) {
  return !isOthers(principal) || /** @type {Me} */ (me).roles.some((role) => roles.includes(role));
}

/** @type {(principal: string | undefined) => principal is string} */
function isOthers(principal) {
  return Boolean(me && principal && principal !== me.principal);
}
