// @ts-check
// What comes before the page: finds out who is reading, and asks for a sign-in where one is needed.

import { forgetHistory } from "../../state/useLocalChatHistory.js";
import { hasSession, keepToken, forgetCredential } from "../../services/credential.js";
import { beginSignIn, finishSignIn, waysToSignIn, whoAmI } from "../../services/signIn.js";
import { noteMe } from "../../state/me.js";

/** @typedef {import("./App.js").Me} Me */

const READER = "callboard:reader";
const SIGNED_OUT = "callboard:1:signed-out";
const LOST = "This browser has a session that was not begun on this page. Sign in to continue.";

/** @type {(root: HTMLElement, start: (me: Me | null) => void) => Promise<void>} Shows the page once the reader is known; `start` gets null where the server does not say. */
export async function enter(root, start) {
  try {
    await finishSignIn();
  } catch (error) {
    return ask(root, error);
  }
  const /** @type {any} */ me = await whoAmI().catch((error) => error);
  if (me.status === 401) return ask(root);
  // Without the token of its sign-in a session may be another person's, planted by a server on another port.
  if (me.credential === "session" && !hasSession()) return ask(root, new Error(LOST));
  return start(me instanceof Error ? null : known(me));
}

/** Leave the page as one that is signed out; `providerUrl` is where the session at the provider is ended. */
export function leave(providerUrl = "") {
  forgetCredential();
  sessionStorage.setItem(SIGNED_OUT, providerUrl);
  location.replace("/");
  location.reload();
}

/** @type {(root: HTMLElement, error?: any) => Promise<void>} */
async function ask(root, error) {
  const [{ SignIn }, ways] = await Promise.all([import("./SignIn.js"), waysToSignIn().catch(() => null)]);
  const providerUrl = error ? undefined : sessionStorage.getItem(SIGNED_OUT) ?? undefined;
  if (providerUrl !== undefined) forgetHistory(); // the page kept its conversation as it was left
  sessionStorage.removeItem(SIGNED_OUT);
  const show = (/** @type {{error?: any, providerUrl?: string}} */ more) => root.replaceChildren(SignIn({ ways, onSignIn, onKey, ...more }));
  const onSignIn = () => beginSignIn().catch((found) => show({ error: found }));
  const onKey = (/** @type {string} */ key) => tryKey(key).catch((found) => show({ error: found }));
  document.body.dataset.page = "sign-in";
  show({ error, providerUrl });
  root.querySelector("h1")?.focus();
}

async function tryKey(/** @type {string} */ key) {
  keepToken(key);
  try {
    await whoAmI();
    location.reload();
  } catch (/** @type {any} */ error) {
    forgetCredential();
    throw error.status === 401 ? Object.assign(error, { message: "This key is not valid: it is mistyped, revoked or expired." }) : error;
  }
}

// What the browser kept of conversations is the last reader's.
function known(/** @type {Me} */ me) {
  const reader = `${me.tenant}/${me.principal}`;
  try {
    const last = localStorage.getItem(READER);
    if (last !== null && last !== reader) forgetHistory();
    localStorage.setItem(READER, reader);
  } catch {
    // Storage is off: nothing was kept.
  }
  noteMe(me);
  return me;
}
