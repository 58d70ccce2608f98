// The credential of this tab: it comes in the address's fragment, which is not sent to the server, and goes into a header.

const NAME = "callboard:1:token";
const GIVEN = /^#token=([A-Za-z0-9._~+/-]+=*)$/;
let token = "";

/** Take the token out of the address, if it has one, so that history and shared links do not; returns whether it had. */
export function takeToken() {
  const [, given] = GIVEN.exec(location.hash) ?? [];
  if (!given) return false;
  token = given;
  attempt(() => sessionStorage.setItem(NAME, given));
  history.replaceState(null, "", "#/");
  return true;
}

/** Return the headers that say who is asking; none where the page was opened without a token. */
export function credentialHeaders() {
  // Of this tab alone: another server at this port, later, would read what the whole browser keeps for the address.
  token ||= attempt(() => sessionStorage.getItem(NAME)) ?? "";
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function attempt(work) {
  try {
    return work();
  } catch {
    return null; // Storage is off: the token lives as long as the page.
  }
}
