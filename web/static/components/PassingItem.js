import { fill, h, icon } from "../dom/h.js";
import { visible } from "../dom/visible.js";

const CHANGED = { compacted: "Earlier messages are summarised from here on", rolled_back: "This turn was undone", forked: "This conversation is a fork", edited: "The message was edited" };
const STEERED = { accepted: "waits for the end of the step", consumed: "given to the agent", undelivered: "not delivered", refused: "refused" };
const LINES = { child: childLine, control: controlLine, handover: handoverLine, history: (item) => [icon("again"), h("span", {}, CHANGED[item.change] ?? visible(item.change))] };

/** What happened to the run beside its answer, as one line: child runs, controls, hand-overs, changes of the past. */
export class PassingItem {
  constructor() {
    this.element = h("p.passing");
  }

  update(item) {
    fill(this.element, LINES[item.kind]?.(item) ?? []);
    this.element.hidden = !this.element.childNodes.length;
  }
}

function childLine(item) {
  return [icon(item.status), h("span", {}, `${visible(item.agent)} was asked`), h("span.faint", {}, item.status)];
}

// The end of the run shows a stop.
function controlLine(item) {
  if (item.verb === "stop") return [];
  if (item.verb !== "steer") return [icon("waiting"), h("span", {}, item.verb === "pause" ? "Pause" : "Resume"), h("span.faint", {}, item.state === "consumed" ? "done" : item.state)];
  const state = item.reason === "next_turn" ? "answered next" : STEERED[item.state] ?? item.state;
  return [icon("again"), h("span", { dir: "auto" }, visible(item.content ?? "")), h("span.faint", {}, state)];
}

function handoverLine(item) {
  return [icon("again"), h("span", {}, `${visible(item.to_agent)} continues`), item.reason && h("span.faint", {}, visible(item.reason))];
}
