// @ts-check
// The API keys of the tenant: which there are, a new one whose text is shown once, and the end of one.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { ago, count, exactly } from "../../dom/format.js";
import { fill, h, icon } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { listKeys, revokeKey } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { isEnded } from "../../state/keys.js";
import { errorWords } from "../../state/words.js";
import { confirmed } from "../../ui/Confirm.js";
import { NewKey } from "./NewKey.js";

export const styles = addStyles("/static/style/catalogue.css");

const REFRESH_MS = 30_000;

/** Return the view; `app` is the page. */
export function open(/** @type {any} */ app) {
  const list = resource((abort) => listKeys("", abort), { everyMs: REFRESH_MS });
  const isAll = signal(false), shown = signal("");
  const place = h("div.table-wrap"), note = h("div.view-note"), outcome = h("div", { role: "alert" });
  watch(() => { shown.value = JSON.stringify({ ...list.state.value.value, all: isAll.value }); });
  watch(() => {
    const { value, error } = list.state.value;
    if (error) fill(note, Notice({ title: error.status === 403 ? "Keys are for administrators" : "The keys could not be read", text: errorWords(error), code: error.code, actions: error.status === 403 ? [] : [["Try again", list.refresh]] }));
    else fill(note, value === undefined ? LoadingIndicator("Reading the keys") : !value.keys.length && [h("p", {}, "There is no key yet."), h("p.faint", {}, "A program that is not on this machine needs one; persons sign in.")]);
  });
  const revoke = async (/** @type {any} */ key) => {
    if (!(await confirmed({ title: `Revoke the key of ${visible(key.name)}?`, text: "Whatever uses it is refused within a second, everywhere. This cannot be taken back.", go: "Revoke" }))) return;
    try {
      await revokeKey(key.id);
      fill(outcome);
    } catch (/** @type {any} */ error) {
      fill(outcome, Notice({ text: errorWords(error), code: error.code }));
    }
    list.refresh();
  };
  watch(() => {
    const { keys = [], next, all } = JSON.parse(shown.value);
    const ended = keys.filter((/** @type {any} */ key) => isEnded(key)), live = keys.filter((/** @type {any} */ key) => !isEnded(key));
    fill(place, live.length + (all ? ended.length : 0) > 0 && tableOf([...live, ...(all ? ended : [])], revoke), ended.length > 0 && !all && h("p", {}, h("button.quiet", { type: "button", onclick: () => { isAll.value = true; } }, `Show ${count(ended.length)} that ended`)), next && h("p.faint", {}, "These are the newest 200; `./callboard keys` lists all."));
  });
  const isAdmin = !app.me?.roles || app.me.roles.includes("admin");
  return {
    title: "Keys",
    element: h("div.view-frame.view-keys", {}, h("header.view-head", {}, h("h1", {}, "API keys")), h("div.view-scroll", {}, h("div.keys-body", {}, note, outcome, isAdmin && new NewKey({ onCreated: list.refresh }).element, place))),
    keys: {},
    show: () => {},
  };
}

// On a phone a cell stands alone: it says what it is.
/** @type {(label: string, at?: string) => {dataset: {label: string}, title?: string}} */
function of(label, at) {
  return { dataset: { label }, ...(at && { title: exactly(at) }) };
}

/** @type {(keys: any[], revoke: (key: any) => void) => HTMLElement} */
function tableOf(keys, revoke) {
  const row = (/** @type {any} */ key) => h("tr", {},
    h("td", {}, h("b", { dir: "auto" }, visible(key.name)), " ", h("code.faint", {}, visible(key.id))),
    h("td", of("roles"), key.roles.length ? key.roles.join(", ") : "its own runs alone"),
    h("td", {}, [key.verbs && `to ${key.verbs.join(", ")}`, key.agents && `agents ${key.agents.join(", ")}`].filter(Boolean).map((text) => h("div", {}, visible(String(text))))),
    h("td", of("created", key.created_at), `${ago(key.created_at)} by `, visible(key.created_by)),
    h("td", of("last used", key.used_at), key.used_at ? ago(key.used_at) : "never"),
    h("td", of("ends"), key.revoked_at ? [icon("refused"), ` revoked ${ago(key.revoked_at)}`] : isEnded(key) ? [icon("cancelled"), " ended"] : key.expires_at ? exactly(key.expires_at) : "does not end"),
    h("td", {}, !isEnded(key) && h("button.btn", { type: "button", "aria-label": `Revoke the key of ${visible(key.name)}`, onclick: () => revoke(key) }, "Revoke")));
  return h("table.plain-table", { "aria-label": "API keys" }, h("thead", {}, h("tr", {}, ["Acts as", "Roles", "Limited", "Created", "Last used", "Ends"].map((title) => h("th", { scope: "col" }, title)), h("th", {}, h("span.offscreen", {}, "Revoke")))), h("tbody", {}, keys.map(row)));
}
