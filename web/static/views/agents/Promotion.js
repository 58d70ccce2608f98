// @ts-check
// Which version new runs get: promote one, let a canary take a share, take the last promotion back. Each asks before.

import { Notice } from "../../ui/Notice.js";
import { count } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { promote, rollBack } from "../../services/admin.js";
import { errorWords } from "../../state/words.js";
import { confirmed } from "../../ui/Confirm.js";

const ROLES = ["operator", "admin"];
const SHARE = 10;

/** The buttons, and what came of the last one. */
export class Promotion {
  /** @param {{app: any, id: string, rows: () => any[], onChange: () => void}} given */
  constructor({ app, id, rows, onChange }) {
    Object.assign(this, { id, onChange });
    this.id = id;
    this.onChange = onChange;
    this.may = !app.me?.roles || app.me.roles.some((/** @type {string} */ role) => ROLES.includes(role));
    this.outcome = h("div", { role: "status" });
    const whole = h("div.row");
    watch(() => {
      const hasAliases = rows().some(({ aliases }) => Object.keys(aliases).length > 0), hasCanary = rows().some(({ aliases }) => "canary" in aliases);
      fill(whole, this.may && rows().length > 1 && this.#button("Roll back", () => this.#rollBack(hasCanary)), this.may && hasAliases && this.#button("End the aliases", () => this.#end()));
    });
    this.element = h("div.promotion", {}, whole, this.outcome);
  }

  /** Return what can be done with a version. */
  buttonsOf(/** @type {any} */ { version, aliases }, /** @type {boolean} */ isServing) {
    if (!this.may) return null;
    return h("div.row", {}, !("stable" in aliases) && this.#button("Make stable", () => this.#stable(version), `Make version ${version} stable`), !isServing && !("canary" in aliases) && this.#button("As canary…", () => this.#canary(version), `Make version ${version} the canary`));
  }

  async #stable(/** @type {number} */ version) {
    const words = `New runs of all threads get version ${count(version)}; a canary ends. Runs that are open keep what they have.`;
    if (await confirmed({ title: `Make version ${version} stable?`, text: words, go: "Make stable" })) await this.#do(() => promote(this.id, { version }), `Version ${version} is stable.`);
  }

  async #canary(/** @type {number} */ version) {
    const share = h("label.form-field", {}, "Percent of the threads", h("input", { name: "share", type: "number", min: "1", max: "99", required: true, value: String(SHARE) }));
    const answer = await confirmed({ title: `Let version ${version} take a share?`, text: "These threads get it from their next run on, and stay on its side; the others keep the stable version.", go: "Start the canary", fields: [share] });
    if (answer) await this.#do(() => promote(this.id, { version, alias: "canary", share: Number(answer.share) }), `Version ${version} is the canary of ${answer.share} % of the threads.`);
  }

  async #rollBack(/** @type {boolean} */ hasCanary) {
    const words = hasCanary ? "The canary ends, and all threads get the stable version." : "The version that was there before is stable for new runs of all threads.";
    if (await confirmed({ title: "Take the last promotion back?", text: words, go: "Roll back" })) await this.#do(() => rollBack(this.id), "It was taken back.");
  }

  async #end() {
    const words = "Both aliases end: new runs get what the file says, now and after each change of it.";
    if (await confirmed({ title: "Let the file serve?", text: words, go: "End the aliases" })) await this.#do(() => promote(this.id, { version: "latest" }), "What the file says serves.");
  }

  /** @type {(call: () => Promise<any>, words: string) => Promise<void>} */
  async #do(call, words) {
    try {
      await call();
      fill(this.outcome, h("p.done", {}, words));
    } catch (/** @type {any} */ error) {
      fill(this.outcome, Notice({ text: errorWords(error), code: error.code }));
    }
    this.onChange(); // another person may have changed it meanwhile
  }

  /** @type {(words: string, act: () => void, label?: string) => HTMLElement} */
  #button(words, act, label) {
    return h("button.btn", { type: "button", onclick: act, "aria-label": label }, words);
  }
}
