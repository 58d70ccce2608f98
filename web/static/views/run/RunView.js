// @ts-check
// One run: what it needs from a person, its timeline, the chosen step, and its events as they are.

import { LineState } from "../../components/LineState.js";
import { Notice } from "../../components/Notice.js";
import { copyButton } from "../../dom/copyButton.js";
import { cost, count, exactly, ticking, took, tokens } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { useTicker } from "../../hooks/useTicker.js";
import { addressOf, threadHash } from "../../router.js";
import { getRun, getSteps, newKey, retryRun, runFeed, stopRun } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { ownerOf, threadKey } from "../../state/me.js";
import { OVER } from "../../state/story.js";
import { RunFacts } from "../../state/timeline.js";
import { errorWords, stateWords } from "../../state/words.js";
import { EventList } from "./EventList.js";
import { StepPanel } from "./StepPanel.js";
import { Timeline } from "./Timeline.js";

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
    if (known && known.params.runId === next.params.runId) Object.assign(known.query, { tab: "", step: "" }, next.query);
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
  const [head, asks, body] = [h("header.run-head"), h("div.run-asks"), h("div.run-body")];
  const state = h("div.fact-state"), time = h("span");
  fill(state, h("span"), h("strong"), " · ", time);
  watch(() => showHead(head, run.state.value, state, line.element, app));
  watch(() => say(time, timeOf(run.state.value.value, clock)));
  watch(() => showQuestions(asks, run.state.value.value));
  watch(() => {
    tabChanges.value;
    const { tab, step } = queryOf();
    fill(body, tabs(runId, tab, changes, () => events.length), tab === "events" ? new EventList({ events, changes, stepId: step ?? "" }).element : h("div.run-columns", {}, h("div.run-main", {}, asks, timeline.element), panel.element));
  });
  fill(element, head, body);
}

// What a summary says is drawn when it has changed: a button that has the focus keeps it.
/** @type {(head: HTMLElement, answer: {value: any, error: any}, state: HTMLElement, line: HTMLElement, app: any) => void} */
function showHead(head, { value: run, error }, state, line, app) {
  const key = JSON.stringify([run ?? null, error?.code ?? null]);
  if (head.dataset.shown === key) return;
  head.dataset.shown = key;
  if (!run) {
    const missing = error?.status === 404;
    return void fill(head, h("p.crumbs", {}, h("a", { href: "#/board" }, "Board")), error ? Notice({ title: missing ? "There is no such run" : "The run could not be read", text: missing ? "It may be mistyped, removed, or of a person whose runs you do not see." : errorWords(error), code: error.code }) : h("p.faint", {}, "Reading the run"));
  }
  const isOver = OVER.has(run.status);
  state.dataset.state = run.status;
  fill(/** @type {HTMLElement} */ (state.firstChild), icon(run.status));
  say(/** @type {HTMLElement} */ (state.children[1]), stateWords(run.status, run.reason));
  const act = (/** @type {string} */ words, /** @type {() => Promise<any>} */ call, mark = "") => h("button.btn", { type: "button", onclick: (/** @type {any} */ event) => attempt(event.currentTarget, head, call) }, mark && icon(mark), words);
  fill(head,
    h("p.crumbs", {}, h("a", { href: "#/board" }, "Board"), " / ", h("a", { href: addressOf("/board", {}, { agent: run.agent }) }, visible(app.nameOf(run.agent, run.agent_name))), " / ", h("code", {}, `…${run.run_id.slice(-6)}`), " ", copyButton(() => run.run_id, "Copy id")),
    h("div.run-title", {}, h("h1", { dir: "auto", title: visible(run.title ?? "") }, visible(run.title ?? run.run_id)), h("div.row", {},
      h("a.btn", { href: threadHash(threadKey(run.thread_id, run.principal), run.run_id) }, icon("talk"), "Conversation"),
      isOver && run.status !== "succeeded" && act("Retry", async () => { location.hash = addressOf("/run/:runId", { runId: (await retryRun(run.run_id, newKey())).run_id }); }, "again"),
      !isOver && act("Stop", () => stopRun(run.run_id), "stop"))),
    h("dl.run-facts", {}, state, fact("cost", run.cost_usd && cost(run.cost_usd)), fact("tokens", run.usage && tokens(run.usage.input_tokens ?? 0, run.usage.output_tokens ?? 0)), fact("attempt", run.attempt && count(run.attempt)), fact("model", run.model && visible(run.model)), fact("for", visible(ownerOf(run.principal))), fact("accepted", exactly(run.created_at))),
    h("div.run-problem", { role: "alert" }), line);
}

/** @type {(run: any, clock: import("../../dom/live.js").Signal<number>) => string} */
function timeOf(run, clock) {
  if (!run) return "";
  return OVER.has(run.status) ? took({ duration_ms: run.duration_ms, work_ms: run.work_ms }) : ticking(clock.value - Date.parse(run.started_at ?? run.created_at));
}

/** @type {(button: HTMLButtonElement, head: HTMLElement, call: () => Promise<any>) => Promise<void>} */
async function attempt(button, head, call) {
  button.disabled = true;
  try {
    await call();
  } catch (/** @type {any} */ error) {
    const place = head.querySelector(".run-problem");
    if (place) fill(place, Notice({ text: errorWords(error), code: error.code }));
  } finally {
    button.disabled = false;
  }
}

/** @type {(name: string, text: any) => any} */
function fact(name, text) {
  return text && h("div", {}, h("dt", {}, name), h("dd", {}, text));
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

/** @type {(runId: string, tab: string | undefined, changes: any, number: () => number) => HTMLElement} */
function tabs(runId, tab, changes, number) {
  const total = h("small");
  watch(() => { changes.value; say(total, count(number())); });
  const link = (/** @type {string} */ name, /** @type {string} */ words, more = /** @type {any} */ (null)) => h("a", { href: addressOf("/run/:runId", { runId }, { tab: name }), "aria-current": (tab ?? "") === name ? "page" : null }, words, more);
  return h("nav.view-tabs", { "aria-label": "Of this run" }, link("", "Timeline"), link("events", "Events", total));
}
