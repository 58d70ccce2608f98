// @ts-check
import { h, icon } from "../dom/h.js";
import { visible } from "../dom/visible.js";
import { errorWords } from "../state/words.js";

/** @typedef {{tone?: "bad" | "wait" | "plain", title?: string, text?: string, code?: string, actions?: [string, () => void][]}} Given */

/** @param {Given} given Returns a designed sentence for something that went wrong or is missing: what, why, and what to do. */
export function Notice({ tone = "bad", title, text, code, actions = [] }) {
  const mark = icon({ bad: "failed", wait: "waiting", plain: "unknown" }[tone] ?? "unknown");
  const buttons = actions.map(([label, act]) => h("button.btn", { type: "button", onclick: act }, label));
  const body = h("div", {},
    title && h("strong", {}, title),
    text && h("p", {}, withCode(visible(sentence(text)))),
    code && h("code.code-name", {}, code),
    buttons.length > 0 && h("div.row", {}, buttons));
  return h(`div.notice.is-${tone}`, {}, mark, body);
}

/** @type {(error: {message: string, code?: string, status?: number}, more?: Given) => HTMLElement} Returns the notice of an error. */
export function ErrorNotice(error, more) {
  return Notice({ text: errorWords(error), code: error.code, ...more });
}

/** Return the text with a capital, as sentences begin; codes and quotations stay as they are. */
export function sentence(/** @type {string} */ text) {
  return /^[a-z]+[ ,]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
}

/** Return a sentence whose `backquoted` parts are commands, as elements. */
export function withCode(/** @type {string} */ sentence) {
  return sentence.split(/`([^`]+)`/).map((part, i) => (i % 2 ? h("code", {}, part) : part));
}
