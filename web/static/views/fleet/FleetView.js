// @ts-check
// The fleet: what executes the runs, how much waits for it, what happened within a day, and what to do about it.

import { LineState } from "../../ui/LineState.js";
import { fill, h, say } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { countRuns, getHealth } from "../../services/api.js";
import { listObservers } from "../../services/admin.js";
import { getDoctor, getMetrics, listQueues, listWorkers } from "../../services/fleet.js";
import { resource } from "../../services/resource.js";
import { LENGTHS } from "../../state/metrics.js";
import { FAILED } from "../board/groups.js";
import { Vitals } from "../board/Vitals.js";
import { Causes } from "./Causes.js";
import { DoctorSays } from "./DoctorSays.js";
import { DayPlots } from "./DayPlots.js";
import { Observers } from "./Observers.js";
import { Parts } from "./Parts.js";
import { QueueTable } from "./QueueTable.js";
import { WorkerTable } from "./WorkerTable.js";

const SOON_MS = 5000, LATER_MS = 15_000, SELDOM_MS = 30_000;
const DEFAULT = "24h";

/** Return the view; each of its parts asks the server by itself, and says what it may not see. */
export function open(/** @type {any} */ app) {
  addStyles("/static/style/fleet.css");
  const length = signal(DEFAULT);
  const workers = resource(listWorkers, { everyMs: SOON_MS });
  const queues = resource(listQueues, { everyMs: SOON_MS });
  const metrics = ofLength(length);
  let isChosen = false; // or the first answer has decided it: a young installation begins with what it has
  watch(() => {
    const rows = metrics.value.value?.rows;
    if (rows?.length && !isChosen && rows.every((/** @type {any} */ { at }) => Date.parse(at) > Date.now() - LENGTHS["1h"])) length.value = "1h";
    isChosen ||= Boolean(rows);
  });
  const line = new LineState({ onRetry: () => app.feed.hurry() });
  watch(() => line.show(app.line.value));

  const main = [
    part("What happened", metrics, new DayPlots(length, metrics).element),
    part("Workers", workers.state, new WorkerTable(workers.state).element),
    part("Queues", queues.state, new QueueTable(queues.state).element),
  ];
  const causes = resource((abort) => countRuns("code", FAILED, abort), { everyMs: LATER_MS });
  const health = resource(getHealth, { everyMs: LATER_MS });
  const observers = resource((abort) => listObservers("", abort), { everyMs: LATER_MS });
  const doctor = resource(getDoctor, { everyMs: SELDOM_MS });
  const side = [
    part("Failures by code, 24 h", causes.state, new Causes(causes.state).element, "h3.caps"),
    part("Parts", health.state, new Parts(health.state).element, "h3.caps"),
    part("Observers", observers.state, new Observers(observers.state).element, "h3.caps"),
    part("Doctor", doctor.state, new DoctorSays(doctor.state).element, "h3.caps"),
  ];
  return {
    title: "Fleet",
    element: h("div.view-frame.view-fleet", {}, h("header.view-head", {}, h("h1", {}, "The fleet"), lengths(length), line.element), h("div.view-scroll", {}, new Vitals(app.feed.board).element, h("div.columns", {}, h("div.main", {}, main), h("aside.side", { "aria-label": "Causes, parts and checks" }, side)))),
    show: (/** @type {import("../../router.js").Route} */ { query }) => {
      isChosen = Object.hasOwn(LENGTHS, query.in);
      length.value = isChosen ? query.in : DEFAULT;
    },
  };
}

/** Return a signal of what was counted in the length of time that is looked at. */
function ofLength(/** @type {import("../../dom/live.js").Signal<string>} */ length) {
  const shown = signal(/** @type {{value: any, error: any, isLoading: boolean}} */ ({ value: undefined, error: null, isLoading: true }));
  watch(() => {
    const since = length.value;
    const { state } = resource(() => getMetrics(since), { everyMs: LATER_MS });
    watch(() => { shown.value = { ...state.value, value: state.value.value ?? shown.peek().value }; });
  });
  return shown;
}

/** Return a part with its heading; until there is an answer it says why there is none. */
function part(/** @type {string} */ title, /** @type {import("../../dom/live.js").Signal<{value: any, error: any, isLoading: boolean}>} */ state, /** @type {HTMLElement} */ element, heading = "h2") {
  const note = h("p.part-note", { role: "status" });
  const box = h("div", {}, element);
  watch(() => {
    const { value, error } = state.value;
    box.hidden = value === undefined;
    note.hidden = value !== undefined && !error;
    if (error?.code === "forbidden") say(note, "This is for the operators of the whole deployment.");
    else if (error) say(note, value === undefined ? visible(error.message) : `Not current: ${visible(error.message)}`);
    else fill(note, h("span.faint", {}, "Reading…"));
  });
  return h("section.part", { "aria-label": title }, title === "What happened" ? null : h(heading, {}, title), note, box);
}

/** Return the lengths of time as links; the address keeps which is looked at. */
function lengths(/** @type {import("../../dom/live.js").Signal<string>} */ length) {
  const links = Object.keys(LENGTHS).map((name) => h("a", { href: addressOf("/fleet", {}, { in: name }), dataset: { name } }, name.replace("h", " h")));
  watch(() => {
    for (const link of links) {
      if (link.dataset.name === length.value) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  });
  return h("nav.view-tabs", { "aria-label": "Length of time" }, links);
}
