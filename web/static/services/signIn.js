// @ts-check
// Sign-in and sign-out. The state of a sign-in is kept for this origin, since servers on other ports can plant cookies.

import { Http } from "../client/http.js";
import { ApiError } from "../client/errors.js";
import { credentialHeaders, forgetCredential, keepSession } from "./credential.js";

const CALLBACK = "/auth/callback";
const BEGUN = "callboard:1:sign-in";
const WHO_TIMEOUT_MS = 4000;
const OVER = "This sign-in was not begun in this tab, or is over. Sign in again.";
const http = new Http({ attempts: 1, headers: credentialHeaders });

/** @type {() => Promise<import("../state/me.js").Me>} Returns {principal, tenant, roles, credential, ...}: who the page acts as. */
export async function whoAmI() {
  return http.call("GET", "/v1/me", { timeoutMs: WHO_TIMEOUT_MS });
}

/** @type {() => Promise<{auth: string, provider?: string}>} Returns {auth, provider?}: what this server asks for. */
export function waysToSignIn() {
  return http.call("GET", "/auth/sign-in");
}

/** Leave for the identity provider; what is shown now is shown again after it. */
export async function beginSignIn() {
  const { authorization_url, state } = await http.call("POST", "/auth/sign-in");
  sessionStorage.setItem(BEGUN, JSON.stringify({ state, hash: location.hash }));
  location.assign(authorization_url);
}

/** Finish a sign-in if the provider sent the reader here; the address is the page's own again, whatever comes of it. */
export async function finishSignIn() {
  if (location.pathname !== CALLBACK) return;
  const { state, hash = "#/" } = begun();
  const given = Object.fromEntries(["state", "code", "iss", "error"].map((name) => [name, new URLSearchParams(location.search).get(name)]).filter(([, value]) => value));
  history.replaceState(null, "", `/${hash}`);
  if (!state || given.state !== state) throw new ApiError(OVER, { code: "sign_in_refused" });
  const { csrf_token } = await http.call("POST", CALLBACK, { body: given });
  keepSession(csrf_token);
}

/** @type {(everywhere: boolean) => Promise<string | undefined>} Ends the session, or all of this person's; returns where the one at the provider can be ended, if it says so. */
export async function signOut(everywhere) {
  const { provider_url } = await http.call("POST", "/auth/sign-out", { body: { everywhere } });
  forgetCredential();
  return provider_url;
}

/** @type {() => {state?: string, hash?: string}} */
function begun() {
  const text = sessionStorage.getItem(BEGUN);
  sessionStorage.removeItem(BEGUN);
  return JSON.parse(text ?? "{}");
}
