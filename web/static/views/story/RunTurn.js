import { fill, h, icon, say } from "../../dom/h.js";
import { paintSoon } from "../../dom/paint.js";
import { copyButton } from "../../dom/copyButton.js";
import { cost, exactly, plural, tokens, took } from "../../dom/format.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { fleetWords, isStarting } from "../../state/fleet.js";
import { isOpen, isOver } from "../../state/story.js";
import { ownerOf } from "../../state/me.js";
import { errorWords, stateWords, waitWords } from "../../state/words.js";
import { ArgumentList } from "../../ui/ArgumentList.js";
import { ChildItem } from "./ChildItem.js";
import { ErrorItem } from "./ErrorItem.js";
import { LLMResponse, parseStructured } from "./LLMResponse.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { MessageBubble } from "./MessageBubble.js";
import { Notice } from "../../ui/Notice.js";
import { PassingItem } from "./PassingItem.js";
import { TextItem } from "./TextItem.js";
import { ThinkingItem } from "./ThinkingItem.js";
import { ToolCard } from "./ToolCard.js";
import { copyAnswer, endActions, QueuedActions } from "./TurnActions.js";

const VIEWS = { text: TextItem, thinking: ThinkingItem, error: ErrorItem, child: ChildItem, control: PassingItem, handover: PassingItem, history: PassingItem, tool: ToolCard };
const LOAD_AGAIN_MS = 2000;
const LONG_INPUT = 1200;
// What is called for an item of a FOR_EACH, thousands of times perhaps, stands in the panels of the graph.
const OF_ITEM = /^[A-Za-z_]\w*\/\d+\//;
// A worker needs ten seconds or so to warm up; a run queued for longer with none alive needs a person.
const LATE_MS = 3000;
const NO_WORKER_MS = 20_000;

// The views of questions are not part of the first load. A question brings the line above several of them.
let questions = null;

/** Load the views of questions, again after a failure until they are here. */
function loadQuestions() {
  questions ??= Promise.all([import("./ConfirmInline.js"), import("./CallBatch.js")]).then(
    ([{ ConfirmInline }, { CallBatch }]) => Object.assign(VIEWS, { approval: ConfirmInline, batch: CallBatch }),
    () => new Promise((resolve) => setTimeout(resolve, LOAD_AGAIN_MS)).then(() => { questions = null; return loadQuestions(); }));
  return questions;
}

// Few conversations run a workflow: its graph is not part of the first load.
let graphs = null;

/** Load the view of graphs, again after a failure until it is here. */
function loadGraphs() {
  graphs ??= import("../graph/GraphView.js").catch(() => new Promise((resolve) => setTimeout(resolve, LOAD_AGAIN_MS)).then(() => { graphs = null; return loadGraphs(); }));
  return graphs;
}

/** One run in the conversation: what the person said, what the agent did, how it ended. */
export class RunTurn {
  #views = new Map();
  #dirty = new Set();

  constructor(story, { nameOf, onAgain, onEdit, fleet, act, isBehind }) {
    Object.assign(this, { story, nameOf, onAgain, onEdit, fleet, act, isBehind });
    this.you = new MessageBubble({ who: "you", role: "user" });
    this.agent = new MessageBubble({ who: "", role: "agent" });
    this.items = h("div.items");
    this.batch = null;
    this.graph = null;
    this.foot = h("div.foot");
    this.agent.body.append(this.items, this.foot);
    this.element = h("article.run-turn", { "aria-label": "Run" }, this.you.element, this.agent.element);
    for (const item of story.items) this.#dirty.add(item);
    this.#paint();
  }

  // Only a turn of the conversation itself is tried again.
  get #again() {
    return this.onAgain && (() => this.onAgain(this.story));
  }

  /** Show what changed, with the next frame. */
  touch(items = []) {
    for (const item of items) this.#dirty.add(item);
    paintSoon(this.#paint);
  }

  /** Return the approval that waits for a decision, if there is one. */
  openApproval() {
    const item = this.story.items.find(isOpen);
    return item && this.#views.get(item.key);
  }

  #paint = () => {
    const { story } = this;
    if (story.run_id) this.element.dataset.run = story.run_id;
    this.element.dataset.status = story.status;
    this.element.toggleAttribute("data-undone", Boolean(story.undone));
    this.#showInput(story);
    say(this.you.who, visible(ownerOf(story.principal)));
    say(this.agent.who, story.unsent ? "" : visible(this.nameOf(story.agent, story.agent_name)));
    const unloaded = [...this.#dirty].filter(({ kind }) => kind === "approval" && !VIEWS.approval);
    if (unloaded.length) loadQuestions().then(() => this.touch(unloaded));
    for (const item of this.#dirty) if (!unloaded.includes(item) && !isOfItem(item)) this.#viewOf(item).update(item);
    this.#dirty.clear();
    this.#showBatch(story);
    this.#showGraph(story);
    this.#showFoot(story);
  };

  // Above what the nodes did, from the first word that the run is a workflow's.
  #showGraph(story) {
    if (story.kind !== "workflow" && !story.nodes) return;
    this.graph ??= loadGraphs().then(({ GraphView }) => {
      this.graph = new GraphView(story);
      this.items.before(this.graph.element);
      return this.graph;
    });
    this.graph.update?.();
  }

  #viewOf(item) {
    const known = this.#views.get(item.key);
    if (known) return known;
    const View = VIEWS[item.kind] ?? ErrorItem;
    const view = new View(this.story, this.#again, { onAnswered: () => this.touch(), onTouched: () => this.touch(), nameOf: this.nameOf, fleet: this.fleet });
    this.#views.set(item.key, view);
    const following = this.story.items.slice(this.story.items.indexOf(item) + 1);
    const next = following.map((other) => this.#views.get(other.key)?.element).find(Boolean);
    this.items.insertBefore(view.element, next ?? null);
    return view;
  }

  // Above the first open question, once each open one has its card.
  #showBatch(story) {
    const open = story.items.filter((item) => isOpen(item) && this.#views.has(item.key));
    if (!open.length && !this.batch) return;
    this.batch ??= new VIEWS.batch(story);
    this.batch.update(open.map((item) => [item, this.#views.get(item.key)]));
    const first = open.length ? this.#views.get(open[0].key).element : null;
    const line = this.batch.element;
    if (!first || line.hidden || line.nextElementSibling === first) return;
    const held = line.contains(document.activeElement);
    first.before(line);
    if (held) line.focus();
  }

  #showInput(story) {
    const key = `${story.kind} ${story.input}`;
    if (this.shownInput === key) return;
    this.shownInput = key;
    this.you.element.hidden = !story.input;
    const args = story.kind === "workflow" && parseStructured(story.input);
    if (args) return fill(this.you.body, Object.keys(args).length ? ArgumentList(args) : h("p.faint", {}, "No input."));
    const long = story.input.length > LONG_INPUT || story.input.split("\n").length > 16;
    const text = h(`p${long ? ".is-clamped" : ""}`, { dir: "auto" }, visible(story.input));
    fill(this.you.body, text);
    if (long) this.you.body.append(h("button.quiet", { type: "button", onclick: (event) => unclamp(event, text) }, "Show all"));
  }

  // The foot is made again only when what it says has changed.
  #showFoot(story) {
    const key = footKey(story, this.fleet());
    if (this.footKey === key) return;
    this.footKey = key;
    fill(this.foot, this.#footOf(story), isOver(story) ? hasCalls(story) && decisions(story) : runId(story));
  }

  #footOf(story) {
    if (story.unsent) return this.#unsent(story.unsent);
    if (story.lost) return Notice({ text: errorWords(story.lost), code: story.lost.code });
    if (story.sending) return LoadingIndicator("Sending");
    if (isOver(story)) return [this.#output(story), endNotice(story, this.#again), endLine(story, this.act)];
    if (story.stopping) return LoadingIndicator("Stopping");
    if (story.status === "queued") return [queued(story, this.fleet()), this.#queuedActions(story)];
    if (story.items.some(isOpen)) return null;
    if (story.status === "waiting") return waiting(story);
    if (this.graph) return null; // it shows what is at work
    return isSilent(story) ? LoadingIndicator(story.items.length ? "Working" : "Waiting for the model") : null;
  }

  // Made once, so that no typing is lost. A run that has begun before is no message that waits.
  #queuedActions(story) {
    if (!this.act || story.startedAt || story.cursor > 1 || ownerOf(story.principal) !== "you") return null;
    this.queued ??= new QueuedActions(story, { act: this.act, isBehind: () => this.isBehind(story) });
    this.queued.update();
    return this.queued.element;
  }

  #unsent(error) {
    return Notice({ title: "Not sent", text: errorWords(error), code: error.code, actions: [["Send again", () => this.onAgain(this.story)], ["Edit", () => this.onEdit(this.story)]] });
  }

  // A structured answer that no message showed, without the texts that stand above it.
  #output(story) {
    const { output } = story.end ?? {};
    if (output === null || typeof output !== "object" || story.items.some((item) => this.#views.get(item.key)?.structured)) return null;
    const fields = Object.entries(output).filter(([, value]) => !story.items.some(({ kind, text }) => kind === "text" && text === value));
    return fields.length > 0 && LLMResponse(Array.isArray(output) ? output : Object.fromEntries(fields));
  }
}

function isOfItem({ kind, call_id: id }) {
  return kind === "tool" && OF_ITEM.test(id);
}

function hasCalls(story) {
  return story.run_id && story.items.some((item) => item.kind === "tool");
}

function footKey(story, fleet) {
  const late = story.status === "queued" && fleet.alive === 0 && [fleetWords(fleet), isOlder(story, LATE_MS), isOlder(story, NO_WORKER_MS)];
  return JSON.stringify([story.run_id, story.kind, story.status, story.reason, story.detail, story.end, story.sending, story.stopping, Boolean(story.unsent), Boolean(story.lost), isSilent(story), story.items.length === 0, story.items.filter(isOpen).length, late]);
}

// Nothing grows and nothing runs: the model is being waited for.
function isSilent(story) {
  const last = story.items.at(-1);
  if (!last || last.withdrawn) return true;
  if (last.kind === "tool") return Boolean(last.outcome);
  return last.kind === "error" || Boolean(last.closed);
}

function queued(story, fleet) {
  if (isStarting(fleet)) return LoadingIndicator(`Queued: ${fleetWords(fleet)}`);
  if (fleet.alive === 0 && isOlder(story, NO_WORKER_MS)) {
    return Notice({ tone: "wait", title: "Queued, and no worker is alive", text: "The run is safe and starts as soon as there is one: `./callboard worker`, or `./callboard up` for everything." });
  }
  if (fleet.alive === 0 && isOlder(story, LATE_MS)) return LoadingIndicator("Queued: no worker is alive yet");
  if (story.reason === "task") return LoadingIndicator("Its task has ended; a worker continues it in a moment");
  if (story.reason === "answered") return LoadingIndicator("Answered; a worker continues it in a moment");
  return LoadingIndicator(story.reason ? `Queued: ${story.detail ?? story.reason}` : "Queued");
}

function waiting(story) {
  const words = stateWords(story.status, story.reason);
  const text = waitWords(story);
  return text ? Notice({ tone: "wait", title: words[0].toUpperCase() + words.slice(1), text }) : LoadingIndicator(words);
}

function isOlder(story, ms) {
  return Date.now() - Date.parse(story.createdAt ?? 0) > ms;
}

function endNotice(story, again) {
  const { status, reason } = story.end ?? story;
  if (status === "cancelled") return null;
  const isShown = story.items.some((item) => item.kind === "error");
  if (status === "succeeded") return reason && h("p.passing", {}, icon("unknown"), h("span", {}, earlyWords(reason)));
  // The error's own item says it, with the same button.
  if (isShown) return null;
  const { code, message } = errorOf(story, reason);
  return Notice({ text: message, code, actions: again ? [["Try again", again]] : [] });
}

function earlyWords(reason) {
  if (reason === "max_iterations") return "It reached its limit of steps and answered with what it had. Send a message to continue.";
  if (reason === "prompt_refused") return "The agent's guard refused this message, and no further tool was called. Send another one to continue.";
  return `Ended early: ${visible(reason)}.`;
}

function errorOf(story, reason) {
  const error = story.error ?? reason ?? "The run failed without a reason.";
  if (typeof error === "object") return { code: error.code, message: error.message ?? error.code };
  const isCode = /^[a-z_]+$/.test(error);
  return { code: isCode ? error : undefined, message: isCode ? `The run ended with ${error.replaceAll("_", " ")}.` : error };
}

function endLine(story, act) {
  const end = story.end ?? {};
  const status = end.status ?? story.status;
  const { input_tokens: read, output_tokens: written } = end.usage ?? {};
  const facts = [
    status === "dead" ? "dead: given up after repeated crashes" : stateWords(status),
    end.duration_ms !== undefined && took(end),
    written !== undefined && tokens(read ?? 0, written),
    end.cost_usd !== undefined && cost(end.cost_usd),
    end.steps > 1 && plural(end.steps, "step"),
  ];
  const shown = [...facts, story.run_id && idButton(story), story.run_id && timeline(story), copyAnswer(story), endActions(story, act)].filter(Boolean).map((fact) => h("span", {}, fact));
  return h(`p.end.is-${status}`, { title: exactly(story.lastAt ?? story.createdAt) }, icon(status), h("span.facts", {}, shown));
}

// What `./callboard watch`, `approve` and HTTP ask for.
function runId(story) {
  return story.run_id && h("p.run-line.row", {}, idButton(story), timeline(story));
}

function decisions({ run_id: runId }) {
  return h("p.decisions", {}, h("a.quiet", { href: addressOf("/run/:runId", { runId }, { tab: "decisions" }) }, "Policy decisions"));
}

function timeline({ run_id: runId }) {
  return h("a.quiet", { href: addressOf("/run/:runId", { runId }), title: "What the run did, step by step" }, "Timeline");
}

function idButton({ run_id: id }) {
  const button = copyButton(() => id, `run …${id.slice(-6)}`);
  button.classList.add("run-id");
  button.title = `Copy this run's id: ${id}`;
  return button;
}

function unclamp(event, text) {
  const clamped = text.classList.toggle("is-clamped");
  say(event.currentTarget, clamped ? "Show all" : "Show less");
}
