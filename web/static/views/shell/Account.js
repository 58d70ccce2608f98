// @ts-check
import { fill, h } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";

/** @typedef {import("./App.js").Me} Me */

/** @type {Record<string, string>} */
const WORDS = { local: "with this installation's token", key: "with an API key", service: "with a service token", certificate: "with a client certificate" };

/** Who is signed in, and sign-out; nothing where the server asks for no credential. */
export class Account {
  constructor(/** @type {{onSignOut: (everywhere: boolean) => void}} */ { onSignOut }) {
    this.onSignOut = onSignOut;
    this.element = h("section.account", { "aria-label": "Account", hidden: true });
  }

  show(/** @type {Me | null} */ me) {
    if (!me || me.credential === "none") return;
    this.element.hidden = false;
    const name = visible(me.display_name || me.principal);
    const facts = [me.tenant !== "default" && me.tenant, ...me.roles, WORDS[me.credential]].filter(Boolean);
    fill(this.element,
      h("p.account-name", { title: visible(`${me.principal} of tenant ${me.tenant}`) }, name),
      facts.length > 0 && h("p.account-facts", {}, visible(facts.join(" · "))),
      me.credential !== "certificate" && h("p.row", {}, this.#button("Sign out", false), me.credential === "session" && this.#button("Sign out everywhere", true)));
  }

  /** @type {(words: string, everywhere: boolean) => HTMLElement} */
  #button(words, everywhere) {
    return h("button.quiet", { type: "button", onclick: () => this.onSignOut(everywhere) }, words);
  }
}
