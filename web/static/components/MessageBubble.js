import { h } from "../dom/h.js";

/** One voice in the conversation: who speaks, and a body for what is said. */
export class MessageBubble {
  constructor({ who, role }) {
    this.who = h("div.who", {}, who);
    this.body = h("div.said");
    this.element = h(`div.turn.is-${role}`, {}, this.who, this.body);
  }
}
