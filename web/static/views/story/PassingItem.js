// @ts-check
import { fill, h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";

/** @typedef {import("../../state/story.js").ControlItem} ControlItem */
/** @typedef {import("../../state/story.js").HandoverItem} HandoverItem */
/** @typedef {import("../../state/story.js").HistoryItem} HistoryItem */
/** @typedef {false | undefined | string | Element} Part */

/** @type {Record<string, (item: any) => Part[]>} */
const LINES = { control: controlLine, handover: handoverLine, history: historyLine };
/** @type {Record<string, string>} */
const STATES = { consumed: "delivered", undelivered: "not delivered" };

/** What happened to the run beside its answer, as one line: controls, hand-overs, changes of the past. */
export class PassingItem {
  constructor() {
    this.element = h("p.passing");
  }

  update(/** @type {ControlItem | HandoverItem | HistoryItem} */ item) {
    this.element.classList.toggle("is-steer", item.kind === "control" && item.verb === "steer");
    fill(this.element, LINES[item.kind]?.(item) ?? []);
    this.element.hidden = !this.element.childNodes.length;
  }
}

// The end of the run shows a stop. The text of a steer is the person's own.
/** @type {(item: ControlItem) => Part[]} */
function controlLine({ verb, state, content }) {
  if (verb === "stop") return [];
  const mark = state === "consumed" ? "succeeded" : state === "accepted" ? "waiting" : "refused";
  if (verb !== "steer") return [icon(mark), h("span", {}, visible(verb)), h("span.faint", {}, state === "consumed" ? "done" : state)];
  return [icon(mark), h("span.words", { dir: "auto" }, visible(content ?? verb)), h("span.faint", {}, STATES[state] ?? state)];
}

/** @type {(item: HistoryItem) => Part[]} */
function historyLine({ change }) {
  const words = change === "rolled_back" ? "This turn was undone: no model gets it again." : `History ${visible(change)}`;
  return [icon("again"), h("span", {}, words)];
}

/** @type {(item: HandoverItem) => Part[]} */
function handoverLine(item) {
  return [icon("again"), h("span", {}, `${visible(item.to_agent)} continues`), item.reason && h("span.faint", {}, visible(item.reason))];
}
