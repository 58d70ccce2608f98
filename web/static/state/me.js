// Who the page acts as, as the server says it.

let me = null;

/** Note who the page acts as. */
export function noteMe(found) {
  me = found;
}

/** Return whose something is: "you", or another principal. */
export function ownerOf(principal) {
  return isOthers(principal) ? principal : "you";
}

/** Return "by adam" where something is another principal's; empty where it is one's own. */
export function ownerWords(principal) {
  return isOthers(principal) ? `by ${principal}` : "";
}

function isOthers(principal) {
  return Boolean(me && principal && principal !== me.principal);
}
