// @ts-check
import { fill, h } from "../../dom/h.js";
import { Notice } from "../../ui/Notice.js";

/** The notice that the session has ended while the page is open; the conversation stays readable behind it. */
export class SessionOver {
  constructor(/** @type {{onSignIn: () => void}} */ { onSignIn }) {
    this.onSignIn = onSignIn;
    this.element = h("div.session-over", { role: "alert", hidden: true });
  }

  show() {
    this.#say({ tone: "wait", title: "Your session has ended", text: "What you have typed is kept. Sign in to continue.", actions: [["Sign in again", this.onSignIn]] });
  }

  fail(/** @type {any} */ error) {
    this.#say({ title: "That did not work", text: error.message, code: error.code, actions: [["Close", () => { this.element.hidden = true; }]] });
  }

  #say(/** @type {Parameters<typeof Notice>[0]} */ notice) {
    fill(this.element, Notice(notice));
    this.element.hidden = false;
  }
}
