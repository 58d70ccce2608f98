// @ts-check
import { fill, h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { labelOf } from "../../state/agents.js";

const KEYS = "Enter sends · Shift+Enter breaks the line";
const KEYS_OPEN = "Enter queues · Ctrl+Enter steers";
const NO_AGENT = "No agent is loaded yet; this is sent as soon as one is";

/** The input field: Enter sends, Shift+Enter breaks the line. */
export class Composer {
  // Whether Enter was pressed before there was an agent to send to.
  #isWaiting = false;
  #keys = KEYS;

  /** @param {{onSend: (text: string, ifBusy?: string) => void, onAgent: (id: string) => void, onDraft: (text: string) => void}} given */
  constructor({ onSend, onAgent, onDraft }) {
    this.onSend = onSend;
    this.area = h("textarea", { rows: 1, placeholder: "Write a message", "aria-label": "Message", enterkeyhint: "send", oninput: () => this.#changed(onDraft), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) });
    this.agents = h("select", { "aria-label": "Agent", onchange: () => onAgent(this.agents.value) });
    this.button = h("button.btn.go", { type: "submit" }, "Send", icon("up"));
    this.steer = h("button.btn.steer", { type: "button", hidden: true, title: "Give the text to the open run, between two of its steps (Ctrl+Enter)", onclick: (/** @type {Event} */ event) => this.#submit(event, "steer") }, "Steer");
    this.hint = h("span.hint", { role: "status" }, KEYS);
    const form = h("form.box", { onsubmit: (/** @type {Event} */ event) => this.#submit(event) }, this.area, h("div.row", {}, this.agents, this.hint, this.steer, this.button));
    this.element = h("div.compose", {}, form);
    this.#changed();
  }

  get text() {
    return this.area.value;
  }

  /** Put a text there, as a draft or to be edited. */
  write(/** @type {string} */ text) {
    this.area.value = text;
    this.#changed();
  }

  focus() {
    this.area.focus();
  }

  showAgents(/** @type {any[]} */ agents, /** @type {string} */ chosen) {
    fill(this.agents, agents.map((agent) => h("option", { value: agent.id }, visible(labelOf(agents, agent.id)))));
    this.choose(chosen);
    if (this.#isWaiting && this.agents.value) this.#send();
  }

  /** Choose an agent; one that is not offered, such as a goal, gets a line of its own. */
  choose(/** @type {string} */ id) {
    if (id && ![...this.agents.options].some((option) => option.value === id)) this.agents.append(h("option", { value: id }, visible(id)));
    this.agents.value = id;
  }

  /** Say in the empty field whether the message will wait for an open run, and offer to steer that run instead. */
  showOpenRun(/** @type {boolean} */ isOpen) {
    this.area.placeholder = isOpen ? "Write the next message" : "Write a message";
    this.steer.hidden = !isOpen;
    const keys = isOpen ? KEYS_OPEN : KEYS;
    if (this.#keys === keys) return;
    this.#keys = keys;
    if (!this.#isWaiting) this.hint.textContent = keys;
  }

  #key(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#submit(event, (event.ctrlKey || event.metaKey) && !this.steer.hidden ? "steer" : undefined);
  }

  /** @param {Event} event @param {string} [ifBusy] */
  #submit(event, ifBusy) {
    event.preventDefault();
    if (!this.area.value.trim()) return this.area.focus();
    if (!this.agents.value) return this.#wait(true);
    this.#send(ifBusy);
  }

  /** @param {string} [ifBusy] */
  #send(ifBusy) {
    const text = this.area.value;
    this.write("");
    this.onSend(text, ifBusy);
  }

  // A text that is changed meanwhile is not the one that Enter was pressed for.
  #wait(/** @type {boolean} */ isWaiting) {
    this.#isWaiting = isWaiting;
    this.hint.textContent = isWaiting ? NO_AGENT : this.#keys;
    this.hint.classList.toggle("is-news", isWaiting); // shown on small screens too
  }

  #changed(/** @type {(text: string) => void} */ onDraft = () => {}) {
    this.#wait(false);
    onDraft(this.area.value);
    this.button.classList.toggle("is-idle", !this.area.value.trim());
    // For browsers without `field-sizing: content`.
    this.area.style.height = "auto";
    this.area.style.height = `${Math.min(this.area.scrollHeight, 240)}px`;
  }
}
