// @ts-check
// One run: what it needs from a person, its timeline, the chosen step, and its events as they are.

import { LineState } from "../../components/LineState.js";
import { count, ticking, took } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { useTicker } from "../../hooks/useTicker.js";
import { addressOf, threadHash } from "../../router.js";
import { getRun, getSteps, runFeed } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { threadKey } from "../../state/me.js";
import { OVER } from "../../state/story.js";
import { RunFacts } from "../../state/timeline.js";
import { Comparison } from "./Comparison.js";
import { DecisionTable } from "./DecisionTable.js";
import { EventList } from "./EventList.js";
import { LogText } from "./LogText.js";
import { RelatedRuns } from "./RelatedRuns.js";
import { RunHead } from "./RunHead.js";
import { StepPanel } from "./StepPanel.js";
import { Timeline } from "./Timeline.js";
import { UsageTable } from "./UsageTable.js";

export const styles = addStyles("/static/style/run.css");

/** Milliseconds in which events are gathered before the steps are read again, and for how many steps it is twice that. */
const STEPS_PAUSE_MS = 400;
const STEPS_OF_A_PAUSE = 200;

/** Return the view of the run that the address names. */
export function open(/** @type {any} */ app) {
  const route = signal(/** @type {import("../../router.js").Route | null} */ (null));
  const element = h("div.view-frame.run-view");
  watch(() => {
    if (route.value) showRun(app, element, route.value.params.runId, () => route.value?.query ?? {});
  });
  return { title: "Run", element, show: (/** @type {import("../../router.js").Route} */ next) => {
    const known = route.peek();
    if (known && known.params.runId === next.params.runId) Object.assign(known.query, { tab: "", step: "", with: "" }, next.query);
    else route.value = next;
    tabChanges.value += 1;
  } };
}

/** Changes when the address names another tab or step of the same run. */
const tabChanges = signal(0);

/** @type {(app: any, element: HTMLElement, runId: string, queryOf: () => Record<string, string>) => void} */
function showRun(app, element, runId, queryOf) {
  const facts = new RunFacts();
  /** @type {any[]} */
  const events = [];
  const changes = signal(0);
  const clock = signal(Date.now());
  onEnd(useTicker(() => { clock.value = Date.now(); }));
  const run = resource(() => getRun(runId));
  const steps = resource(() => getSteps(runId));
  const stepRows = () => steps.state.value.value ?? [];
  let timer = /** @type {any} */ (0);
  const readSoon = () => { timer ||= setTimeout(() => { timer = 0; run.refresh(); steps.refresh(); }, STEPS_PAUSE_MS * (1 + stepRows().length / STEPS_OF_A_PAUSE)); };
  onEnd(() => clearTimeout(timer));
  const line = new LineState({ onRetry: () => feed.hurry(), quietWhenLive: true });
  const feed = runFeed(runId, {
    cursor: 0,
    onEvent: (/** @type {any} */ { data }) => {
      facts.add(data);
      events.push(data);
      changes.value += 1;
      if (data.type !== "response" && data.type !== "reasoning") readSoon();
    },
    onState: (/** @type {any} */ state) => line.show(state),
  }).start();
  onEnd(() => feed.stop());

  const chosen = signal("");
  const timeline = new Timeline({ facts, changes, steps: stepRows, clock, chosen, onChoose: (/** @type {string} */ key) => { chosen.value = chosen.peek() === key ? "" : key; } });
  const panel = new StepPanel({ timeline, chosen, onEvents: (/** @type {string} */ stepId) => { location.hash = addressOf("/run/:runId", { runId }, { tab: "events", step: stepId }); } });
  const [asks, body, time] = [h("div.run-asks"), h("div.run-body"), h("span")];
  const head = new RunHead({ app, line: line.element, time, eventsOf: () => events });
  watch(() => head.show(run.state.value));
  watch(() => say(time, timeOf(run.state.value.value, clock)));
  watch(() => showQuestions(asks, run.state.value.value));
  watch(() => {
    tabChanges.value;
    const { tab = "", step = "", with: otherId = "" } = queryOf();
    const contents = /** @type {Record<string, () => HTMLElement>} */ ({
      events: () => new EventList({ events, changes, stepId: step }).element,
      usage: () => UsageTable(timeline),
      decisions: () => DecisionTable(runId),
      log: () => LogText(runId, facts.to === null),
      related: () => RelatedRuns(runId),
      compare: () => Comparison(runId, otherId),
    });
    const content = contents[tab]?.() ?? h("div.run-columns", {}, h("div.run-main", {}, asks, timeline.element), panel.element);
    fill(body, tabs(runId, tab, changes, () => events.length), content);
  });
  fill(element, head.element, body);
}

/** @type {(run: any, clock: import("../../dom/live.js").Signal<number>) => string} */
function timeOf(run, clock) {
  if (!run) return "";
  return OVER.has(run.status) ? took({ duration_ms: run.duration_ms, work_ms: run.work_ms }) : ticking(clock.value - Date.parse(run.started_at ?? run.created_at));
}

// What a person has to answer stands above all; the answer is given in the conversation.
/** @type {(place: HTMLElement, run: any) => void} */
function showQuestions(place, run) {
  const key = JSON.stringify(run?.approvals?.map((/** @type {any} */ each) => each.approval_id));
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  fill(place, (run?.approvals ?? []).map((/** @type {any} */ question) => h("section.asks", {}, icon("waiting"),
    h("div", {}, h("strong", {}, visible(question.sentence ?? question.name ?? "A question")), h("p", {}, visible(question.reason ?? ""))),
    h("a.btn.go", { href: threadHash(threadKey(run.thread_id, run.principal), run.run_id) }, "Answer"))));
}

const TABS = [["", "Timeline"], ["events", "Events"], ["usage", "Usage"], ["decisions", "Decisions"], ["log", "Log"], ["related", "Related runs"]];

/** @type {(runId: string, tab: string, changes: any, number: () => number) => HTMLElement} */
function tabs(runId, tab, changes, number) {
  const total = h("small");
  watch(() => { changes.value; say(total, count(number())); });
  const list = tab === "compare" ? [...TABS, ["compare", "Compare"]] : TABS;
  return h("nav.view-tabs", { "aria-label": "Of this run" }, list.map(([name, words]) => h("a", { href: addressOf("/run/:runId", { runId }, { tab: name }), "aria-current": tab === name ? "page" : null }, words, name === "events" && total)));
}
