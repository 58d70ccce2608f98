// Who the page acts as, as the server says it.

let me = null;

/** Note who the page acts as. */
export function noteMe(found) {
  me = found;
}

/** Return whether a principal is the reader; false where the server does not say who is reading. */
export function isMe(principal) {
  return Boolean(me && principal === me.principal);
}

/** Return whose something is: "you", or another principal. */
export function ownerOf(principal) {
  return isOthers(principal) ? principal : "you";
}

/** Return "by adam" where something is another principal's; empty where it is one's own. */
export function ownerWords(principal) {
  return isOthers(principal) ? `by ${principal}` : "";
}

/** Return the name that the page has for a thread: principals name their own, so that of another one has its owner. */
export function threadKey(threadId, owner) {
  return isOthers(owner) ? `${owner}\n${threadId}` : threadId;
}

/** Return {id, owner?} of a thread's name. */
export function threadOf(key) {
  const [owner, id] = key.split("\n");
  return id === undefined ? { id: key } : { id, owner };
}

/** Return whether the reader may stop a principal's run; true where the server does not say who is reading. */
export function mayStop(principal) {
  return mayAsOneOf(["operator", "admin"], principal);
}

/** Return whether the reader may answer the approvals of a principal's run; true where the server does not say who is reading. */
export function mayDecide(principal) {
  return mayAsOneOf(["approver", "admin"], principal);
}

function mayAsOneOf(roles, principal) {
  return !isOthers(principal) || me.roles.some((role) => roles.includes(role));
}

function isOthers(principal) {
  return Boolean(me && principal && principal !== me.principal);
}
