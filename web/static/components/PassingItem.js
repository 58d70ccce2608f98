import { fill, h, icon } from "../dom/h.js";
import { visible } from "../dom/visible.js";

const LINES = { child: childLine, control: controlLine, handover: handoverLine, history: (item) => [icon("again"), h("span", {}, `History ${visible(item.change)}`)] };

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
  const state = item.state === "consumed" ? "done" : item.state;
  return [icon("waiting"), h("span", { dir: "auto" }, visible(item.content ?? item.verb)), h("span.faint", {}, state)];
}

function handoverLine(item) {
  return [icon("again"), h("span", {}, `${visible(item.to_agent)} continues`), item.reason && h("span.faint", {}, visible(item.reason))];
}
