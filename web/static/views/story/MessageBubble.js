// @ts-check
import { h } from "../../dom/h.js";

/** One side of the conversation: its name, and a body for its messages. */
export class MessageBubble {
  constructor(/** @type {{who: string, role: "user" | "agent"}} */ { who, role }) {
    this.who = h("div.who", {}, who);
    this.body = h("div.said");
    this.element = h(`div.turn.is-${role}`, {}, this.who, this.body);
  }
}
