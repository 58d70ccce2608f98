// @ts-check
import { h, say } from "../dom/h.js";

/** @typedef {{name: string, seconds?: number, error?: {message: string, code?: string, status?: number}}} Line The state of a connection; `none`: there is none. */

const POLLING = "Something on the way holds streams back: the page asks every few seconds, and tries the stream again each minute.";

/** The state of a connection in words: whether what is shown is current. */
export class LineState {
  /** @type {Line} */ state = { name: "connecting" };

  /** @param {{onRetry?: () => void, quietWhenLive?: boolean}} [given] */
  constructor({ onRetry = () => {}, quietWhenLive = false } = {}) {
    this.quietWhenLive = quietWhenLive;
    this.words = h("span");
    this.retry = h("button.quiet", { type: "button", onclick: onRetry, hidden: true }, "Try now");
    this.element = h("span.line", {}, this.words, this.retry);
    this.show(this.state);
  }

  show(/** @type {Line} */ state, extra = "") {
    this.state = state;
    this.element.dataset.line = state.name;
    this.element.hidden = this.quietWhenLive && (state.name === "live" || state.name === "ended" || state.name === "none");
    this.retry.hidden = state.name !== "waiting";
    this.element.title = state.error?.message ?? (state.name === "polling" ? POLLING : "");
    say(this.words, lineWords(state) + (extra && (state.name === "live" || state.name === "polling") ? ` · ${extra}` : ""));
  }
}

/** Return the words for a connection's state. */
export function lineWords(/** @type {Line} */ { name, seconds, error }) {
  switch (name) {
    case "live": case "polling": return name;
    case "behind": return `behind by ${seconds} s`;
    case "waiting": return /** @type {number} */ (seconds) > 0 ? `reconnecting in ${seconds} s` : "reconnecting…";
    case "offline": return "offline — this device has no network";
    case "paused": return "paused while hidden";
    case "refused": return error?.status === 401 ? "signed out" : error ? `closed: ${error.code}` : "closed";
    case "ended": case "none": return "";
    default: return "connecting…";
  }
}
