// @ts-check
import { h } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { Notice } from "../../ui/Notice.js";

/** @typedef {{auth: string, provider?: string} | null} Ways What the server asks for, if it says so. */
/** @typedef {{ways: Ways, error?: any, providerUrl?: string, onSignIn: () => void, onKey: (key: string) => void}} Given */

/** The view of a reader who is not signed in: the provider's sign-in, or a key for this tab. */
export function SignIn(/** @type {Given} */ { ways, error, providerUrl, onSignIn, onKey }) {
  const provider = ways?.provider;
  const isKeyWrong = error?.code === "unauthenticated";
  return h("main.sign-in", {}, h("div.sign-in-card", {},
    h("p.brand", {}, h("i", { "aria-hidden": "true" }), "Callboard"),
    h("h1", { tabindex: "-1" }, providerUrl === undefined ? "Sign in" : "You are signed out"),
    providerUrl && h("p", {}, "At the identity provider you may be signed in still. ", h("a.link", { href: providerUrl, rel: "noreferrer" }, "Sign out there too")),
    error && h("div", { role: "alert" }, Notice({ title: "That did not work", text: error.message, code: error.code })),
    provider && h("p", {}, "Use your account at ", h("strong", {}, visible(provider)), "."),
    provider && h("button.btn.go", { type: "button", onclick: onSignIn }, "Sign in"),
    provider ? h("details", { open: isKeyWrong }, h("summary", {}, "Use an API key"), keyForm(ways, onKey)) : keyForm(ways, onKey)));
}

/** @type {(ways: Ways, onKey: Given["onKey"]) => HTMLElement} */
function keyForm(ways, onKey) {
  const isLocal = ways?.auth === "local";
  const field = h("input", { type: "password", name: "key", required: true, autocomplete: "off", spellcheck: "false", "aria-label": isLocal ? "Token" : "API key", placeholder: isLocal ? "cbl_…" : "cbk_…" });
  const hint = isLocal
    ? ["Open the page by the address that ", h("code", {}, "./callboard up"), " prints, or paste the token of this installation: the file ", h("code", {}, "local-token"), " in its state folder."]
    : ["Paste a key that ", h("code", {}, "./callboard keys create NAME"), " made. This tab keeps it until it is closed."];
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    onKey(field.value.trim());
  };
  return h("form.key-form", { onsubmit: submit }, h("p", {}, hint), h("div.row", {}, field, h("button.btn", {}, "Use")));
}
