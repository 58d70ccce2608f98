// @ts-check
import { fill, h, icon, say } from "../../dom/h.js";
import { copyButton } from "../../dom/copyButton.js";
import { cost, duration, ticking } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { mayStop } from "../../state/me.js";
import { callUnderWay, isOver } from "../../state/story.js";
import { stateWords } from "../../state/words.js";
import { LineState } from "../../ui/LineState.js";

/** @typedef {import("../../state/story.js").Story} Story */

/** The title of the conversation, how its run goes, whether the connection is live, and Stop. */
export class ChatHead {
  #shown = "";

  /** @param {{onStop: () => void, onControl: (verb: string) => void, onRetry: () => void, onMenu: () => void, onCopy: () => string | Promise<string>}} given */
  constructor({ onStop, onControl, onRetry, onMenu, onCopy }) {
    this.title = h("h1", { tabindex: "-1" }, "New conversation");
    this.state = h("span.state");
    this.clock = h("span.clock");
    this.rate = h("span.rate");
    this.cost = h("span.cost");
    this.line = new LineState({ onRetry, quietWhenLive: true });
    this.stop = h("button.btn.stop", { type: "button", hidden: true, onclick: onStop }, icon("stop"), "Stop");
    this.pause = h("button.btn.pause", { type: "button", hidden: true, onclick: () => onControl(/** @type {string} */ (this.pause.dataset.verb)) });
    const menu = h("button.menu", { type: "button", "aria-label": "Menu", onclick: onMenu }, icon("menu"));
    const meta = h("span.meta", {}, this.line.element, this.state, this.clock, this.rate, this.cost);
    this.copy = copyButton(onCopy);
    this.copy.title = "Copy the conversation as Markdown";
    this.element = h("header.head", {}, h("div.head-inner", {}, menu, this.title, meta, this.copy, this.pause, this.stop));
    this.line.show({ name: "none" });
  }

  name(/** @type {string} */ title) {
    say(this.title, visible(title || "New conversation"));
    this.title.title = visible(title);
  }

  /** Show a run's state; without one, nothing. `rate` is pieces a second. */
  show(/** @type {Story | undefined} */ story, /** @type {number} */ rate) {
    this.copy.hidden = !story;
    this.stop.hidden = !story?.run_id || isOver(story) || Boolean(story.stopping) || !mayStop(story.principal);
    this.#showPause(this.stop.hidden ? {} : /** @type {Story} */ (story));
    this.#showState(story?.stopping ? "stopping" : story?.status ?? "", story?.reason);
    say(this.clock, story ? elapsed(story) : "");
    say(this.rate, story ? paceOf(story, rate) : "");
    say(this.cost, story?.end?.cost_usd !== undefined ? cost(story.end.cost_usd) : "");
  }

  // A run that waits for a person or a task holds no worker already.
  #showPause(/** @type {{status?: string, reason?: string}} */ { status, reason }) {
    const verb = status === "running" ? "pause" : reason === "paused" ? "resume" : "";
    this.pause.hidden = !verb;
    this.pause.dataset.verb = verb;
    this.pause.title = verb === "pause" ? "Release the worker at the end of the step" : "";
    say(this.pause, verb === "pause" ? "Pause" : "Resume");
  }

  #showState(/** @type {string} */ status, /** @type {string | undefined} */ reason) {
    const words = stateWords(status, reason);
    if (this.#shown === words) return;
    this.#shown = words;
    this.state.dataset.state = status;
    fill(this.state, status && icon(status === "stopping" ? "running" : status, status === "running" ? "is-pulsing" : ""), words);
  }
}

// What a tool takes its time for says more than how fast nothing comes.
/** @type {(story: Story, rate: number) => string} */
function paceOf(story, rate) {
  const call = callUnderWay(story);
  if (call) return `${visible(/** @type {string} */ (call.name))}, ${ticking(Date.now() - Date.parse(call.startedAt))}`;
  return rate >= 1 && story.status === "running" ? `${Math.round(rate)} tok/s` : "";
}

function elapsed(/** @type {Story} */ story) {
  if (story.end) return story.end.duration_ms === undefined ? "" : duration(story.end.duration_ms);
  const since = Date.parse(/** @type {string} */ (story.startedAt ?? story.createdAt));
  return Number.isNaN(since) ? "" : ticking(Date.now() - since);
}
