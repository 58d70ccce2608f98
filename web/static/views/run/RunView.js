// @ts-check
// One run: what it needs from a person, its timeline, the chosen step, and its events as they are.

import { LineState } from "../../ui/LineState.js";
import { count, ticking, took } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { useTicker } from "../../dom/useTicker.js";
import { addressOf } from "../../router.js";
import { getRun, getSteps, runFeed } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { OVER } from "../../state/story.js";
import { RunFacts } from "../../state/timeline.js";
import { Comparison } from "./Comparison.js";
import { DecisionTable } from "./DecisionTable.js";
import { EventList } from "./EventList.js";
import { LogText } from "./LogText.js";
import { RelatedRuns } from "./RelatedRuns.js";
import { RunGraph } from "./RunGraph.js";
import { RunHead } from "./RunHead.js";
import { RunQuestions, styles as answerStyles } from "./RunQuestions.js";
import { StepPanel } from "./StepPanel.js";
import { Timeline } from "./Timeline.js";
import { UsageTable } from "./UsageTable.js";

export const styles = Promise.all([addStyles("/static/style/run.css"), answerStyles]);

/** Milliseconds in which events are gathered before the steps are read again, and for how many steps it is twice that. */
const STEPS_PAUSE_MS = 400;
const STEPS_OF_A_PAUSE = 200;

/** Return the view of the run that the address names. */
export function open(/** @type {any} */ app) {
  const route = signal(/** @type {import("../../router.js").Route | null} */ (null));
  const element = h("div.view-frame.run-view");
  const keys = {};
  watch(() => {
    if (route.value) Object.assign(keys, showRun(app, element, route.value.params.runId, () => route.value?.query ?? {}));
  });
  return { title: "Run", element, keys, show: (/** @type {import("../../router.js").Route} */ next) => {
    const known = route.peek();
    if (known && known.params.runId === next.params.runId) Object.assign(known.query, { tab: "", step: "", with: "" }, next.query);
    else route.value = next;
    tabChanges.value += 1;
  } };
}

/** Changes when the address names another tab or step of the same run. */
const tabChanges = signal(0);

/** @type {(app: any, element: HTMLElement, runId: string, queryOf: () => Record<string, string>) => Record<string, () => void>} Returns its keys. */
function showRun(app, element, runId, queryOf) {
  const facts = new RunFacts();
  /** @type {any[]} */
  const events = [];
  const changes = signal(0), lines = signal(0);
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
      if (data.type === "response" || data.type === "reasoning") return;
      lines.value += 1;
      readSoon();
    },
    onState: (/** @type {any} */ state) => line.show(state),
  }).start();
  onEnd(() => feed.stop());

  const chosen = signal("");
  const onChoose = (/** @type {string} */ key) => {
    history.replaceState(null, "", addressOf("/run/:runId", { runId }, { step: (chosen.value = key) }));
    if (!matchMedia("(max-width: 1120px)").matches) return;
    panel.element.focus({ preventScroll: true });
    panel.element.scrollIntoView();
  };
  const timeline = new Timeline({ facts, changes, run: () => run.state.value.value, steps: stepRows, clock, chosen, onChoose });
  const panel = new StepPanel({ run: () => run.state.value.value, runId, facts, timeline, onEvents: (/** @type {string} */ stepId) => { location.hash = addressOf("/run/:runId", { runId }, { tab: "events", step: stepId }); } });
  const questions = new RunQuestions({ run: () => run.state.value.value, clock, onAnswer: () => readSoon() });
  const [body, time, graph] = [h("div.run-body"), h("span"), h("div")];
  const isDrawn = signal(false);
  watch(() => fill(graph, isDrawn.value && RunGraph(run.state.peek().value, events, changes)));
  const head = new RunHead({ app, facts, line: line.element, time });
  watch(() => {
    lines.value;
    const { value, error } = run.state.value;
    head.show({ value, error });
    body.hidden = !value && error;
    isDrawn.value = value?.kind === "workflow";
    say(time, timeOf(value, facts, clock));
  });
  watch(() => {
    tabChanges.value;
    const { tab = "", step = "", with: otherId = "" } = queryOf();
    if (!tab && step) chosen.value = step;
    const contents = /** @type {Record<string, () => HTMLElement>} */ ({
      events: () => new EventList({ run: () => run.state.peek().value, events, changes, stepId: step }).element,
      usage: () => UsageTable(timeline),
      decisions: () => DecisionTable(runId),
      log: () => LogText({ runId, lines, isOpen: facts.to === null }),
      related: () => RelatedRuns(app, runId),
      compare: () => Comparison(runId, otherId),
    });
    const content = (Object.hasOwn(contents, tab) ? contents[tab]() : h("div.run-columns", {}, h("div.run-main", {}, questions.element, graph, timeline.element), panel.element));
    fill(body, tabs(runId, tab, changes, () => events.length), content);
  });
  fill(element, head.element, body);
  return { ...questions.keys, s: () => head.stop() };
}

/** @type {(run: any, facts: RunFacts, clock: import("../../dom/live.js").Signal<number>) => string} */
function timeOf(run, { end }, clock) {
  if (!run) return "";
  if (!OVER.has(run.status)) return ticking(clock.value - Date.parse(run.started_at ?? run.created_at));
  const ended = [end, run].find((each) => each?.duration_ms !== undefined); // what earlier releases ended does not say it
  return ended ? took(ended) : "";
}

const TABS = [["", "Timeline"], ["events", "Events"], ["usage", "Usage"], ["decisions", "Decisions"], ["log", "Log"], ["related", "Related runs"], ["compare", "Compare"]];

/** @type {(runId: string, tab: string, changes: any, number: () => number) => HTMLElement} */
function tabs(runId, tab, changes, number) {
  const total = h("small");
  watch(() => { changes.value; say(total, count(number())); });
  return h("nav.view-tabs", { "aria-label": "Of this run" }, TABS.map(([name, words]) => h("a", { href: addressOf("/run/:runId", { runId }, { tab: name }), "aria-current": tab === name ? "page" : null }, words, name === "events" && total)));
}
