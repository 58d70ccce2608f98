// @ts-check
// The page's credential: a token in this tab, or a session, whose cookie no script reads and whose CSRF token is here.
// A token comes in the address's fragment, which is not sent to the server, or from the sign-in view.

const NAME = "callboard:1:token";
// Not among what is kept of conversations, which goes when another person reads.
const CSRF = "callboard:csrf";
const GIVEN = /^#token=([A-Za-z0-9._~+/-]+=*)(?:&to=(\/[^&]*))?$/;
let token = "";
let csrfToken = "";

/** @type {() => boolean} Takes the token out of the address, if it has one, so that history and shared links do not; returns whether it had. */
export function takeToken() {
  const [, given, to] = GIVEN.exec(location.hash) ?? [];
  if (!given) return false;
  keepToken(given);
  history.replaceState(null, "", `#${to ?? "/"}`);
  return true;
}

/** @type {(given: string) => void} Uses a token for this tab. */
export function keepToken(given) {
  token = given;
  attempt(() => sessionStorage.setItem(NAME, given));
}

/** @type {(given: string) => void} Uses the session that a sign-in brought, in all tabs: storage is separated by port, as cookies are not. */
export function keepSession(given) {
  csrfToken = given;
  attempt(() => localStorage.setItem(CSRF, given));
}

/** Forget the token and the session's. */
export function forgetCredential() {
  token = csrfToken = "";
  attempt(() => sessionStorage.removeItem(NAME));
  attempt(() => localStorage.removeItem(CSRF));
}

/** Return whether a sign-in of this browser made the session. */
export function hasSession() {
  return Boolean(csrf());
}

/** @type {() => Record<string, string>} Returns the headers that say who is asking; none where the page was opened without a credential. */
export function credentialHeaders() {
  // Of this tab alone: another server at this port, later, would read what the whole browser keeps for the address.
  token ||= attempt(() => sessionStorage.getItem(NAME)) ?? "";
  if (token) return { Authorization: `Bearer ${token}` };
  return csrf() ? { "X-CSRF-Token": csrf() } : {};
}

// Read each time: another tab may have signed in again.
function csrf() {
  return attempt(() => localStorage.getItem(CSRF)) ?? csrfToken;
}

/** @type {<T>(work: () => T) => T | null} */
function attempt(work) {
  try {
    return work();
  } catch {
    return null; // Storage is off: the token lives as long as the page.
  }
}
