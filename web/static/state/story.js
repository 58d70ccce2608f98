// @ts-check
// A run's story: its events folded into the things a reader sees. Plain data, so that it can be stored and compared.

import { addCalls, answerCall, foldRoute } from "./toolCalls.js";
import { byWords, decisionWords } from "./words.js";

/** @typedef {{seq: number, type: string, at?: string, [fact: string]: any}} RunEvent An event of a run, as the server sends it. */
/** @typedef {import("./form.js").Schema} Schema */
/** @typedef {Record<string, any>} Arguments of a call, by their names */
/** @typedef {{message: string, code?: string, status?: number}} Failure What a request failed with. */

/**
 * @typedef {{key: string, seq?: number, closed?: boolean, final?: boolean, withdrawn?: boolean}} AnyItem What each item has: `closed` when nothing more comes, `final` once its message came, `withdrawn` when its attempt was lost.
 * @typedef {AnyItem & {marks?: undefined, outcome?: undefined}} PlainItem What neither is made of pieces nor has an outcome.
 * @typedef {AnyItem & {text: string, marks: [seq: number, start: number][], messageId?: string, partial?: boolean, startedAt?: string, endedAt?: string, outcome?: undefined}} Words `marks`: where the piece of each event begins.
 * @typedef {Words & {kind: "text"}} TextItem
 * @typedef {Words & {kind: "thinking"}} ThinkingItem
 *
 * @typedef {{verdict: string, rule: string, reason?: string, changed?: string[]}} Policy
 * @typedef {{level: string, message: string, logger?: string, left_out?: number}} LogLine
 * @typedef {{done?: number, total?: number, message?: string}} Progress
 * @typedef {AnyItem & {kind: "tool", call_id: string, name?: string, arguments?: Arguments, effect?: string, policy?: Policy, messageId?: string, startedAt?: string, progress?: Progress, lines?: LogLine[], outcome?: string, result?: any, duration_ms?: number, asked?: "call" | "form" | "unknown" | false | null, edited?: boolean, lost?: boolean, routed?: boolean, marks?: undefined}} ToolItem
 *
 * @typedef {{approval_id: string, call_id?: string, name?: string, ask?: string, arguments?: Arguments, digest?: string, decisions?: string[], expires_at?: string, on_expiry?: string, approvers?: number, approved_by?: string[], reason?: string, form?: Schema, input_schema?: Schema, scopes?: string[], scope_s?: number, sentence?: string, labels?: string[], effect?: string}} Asked A question, as its event or a list of questions has it.
 * @typedef {{decision?: string, by?: string, word?: string, edited?: Arguments, answer?: any, scope?: string, until?: string, mine?: boolean, late?: boolean, over?: boolean}} Answered `mine`: by this page; `late`: another answer came first; `over`: the run ended without one.
 * @typedef {PlainItem & {kind: "approval"} & Asked & Answered} ApprovalItem
 *
 * @typedef {PlainItem & {kind: "error", code: string, message?: string, retryable?: boolean, attempt?: number, retry_in_ms?: number, call_id?: string, to_model?: string, tries?: number}} ErrorItem
 * @typedef {PlainItem & {kind: "child", child_run_id?: string, agent?: string, status: string}} ChildItem
 * @typedef {PlainItem & {kind: "control", verb: string, state: string, content?: string}} ControlItem
 * @typedef {PlainItem & {kind: "handover", to_agent: string, reason?: string}} HandoverItem
 * @typedef {PlainItem & {kind: "history", change: string}} HistoryItem
 * @typedef {TextItem | ThinkingItem | ToolItem | ApprovalItem | ErrorItem | ChildItem | ControlItem | HandoverItem | HistoryItem} Item
 */

/**
 * @typedef {{status?: string, branch?: string, attempt?: number, duration_ms?: number, content?: string, counts?: any, startedAt?: string, endedAt?: string, total?: number, items?: Record<string, string>}} NodeEntry What the last event of a node said; `items`: the state of each item that came to it.
 * @typedef {{status?: string, reason?: string, output?: any, usage?: Record<string, number>, cost_usd?: number, steps?: number, duration_ms?: number, work_ms?: number}} End
 * @typedef {{thread_id?: string | null, principal?: string, agent_name?: string, kind?: string, createdAt?: string, startedAt?: string, lastAt?: string, reason?: string, detail?: string, attempt?: number, error?: string | {code: string, message?: string}, undone?: boolean, nodes?: Record<string, NodeEntry>, end?: End}} Facts
 * @typedef {{key?: string, retryKey?: string, ifBusy?: string, sending?: boolean, unsent?: Failure | null, stopping?: boolean, lost?: Failure | null, detailing?: boolean}} Doing What the page does with the run: `unsent` and `lost` say why its message was not sent, and why it is not followed.
 * @typedef {{run_id: string, agent: string, cursor: number, status: string, items: Item[], input: string, pieces: number} & Facts & Doing} Story There is no `run_id` until the server has accepted the message, and no `agent` where a story is made of events alone.
 * @typedef {Story & {thread_id: string}} SentStory That of a run that the server has.
 */

/** @type {(facts?: Partial<Story>) => Story} Returns the story of a run of which no event has come yet. */
export function newStory(facts = {}) {
  return /** @type {Story} */ ({ cursor: 0, status: "queued", items: [], input: "", pieces: 0, ...facts });
}

/**
 * Fold one event into the story and return the items it touched, or null when the story had it already.
 *
 * Each item has a `key` that never changes.
 *
 * @type {(story: Story, event: RunEvent) => Item[] | null}
 */
export function applyEvent(story, event) {
  if (event.seq <= story.cursor) return null;
  story.cursor = event.seq;
  if (event.at) story.lastAt = event.at;
  const known = EVENTS[event.type];
  return known ? /** @type {Item[]} */ ([known.fold(story, event)].flat().filter(Boolean)) : [];
}

/**
 * Take from a run's summary that its worker was lost, and return the items that this cuts off, or null. No event says so
 * until another worker continues; a summary of an attempt before the story's is an older one.
 *
 * @type {(story: Story, summary: {status: string, reason?: string, attempt?: number}) => Item[] | null}
 */
export function noteLoss(story, { status, reason, attempt = 0 }) {
  if (story.status !== "running" || status !== "queued" || reason !== "worker_lost" || attempt < (story.attempt ?? 0)) return null;
  Object.assign(story, { status, reason });
  return openCalls(story).map((item) => Object.assign(item, { lost: true }));
}

/** True while an approval can still be answered. @param {Item} item @returns {item is ApprovalItem} */
export function isOpen(item) {
  return item.kind === "approval" && !item.decision && !item.over;
}

/** Note that no model gets this turn again, in one item. */
export function foldUndone(/** @type {Story} */ story) {
  story.undone = true;
  return putItem(story, "undone", { kind: "history", change: "rolled_back" });
}

/** True of a message that was removed before its run began: it was no turn. */
export function isRemoved(/** @type {Story} */ story) {
  return Boolean(story.undone && !story.startedAt && OVER.has(story.status) && story.items.every((item) => item.kind === "history" || item.kind === "control"));
}

/** @type {(story: Story) => (ToolItem & {startedAt: string}) | undefined} Returns the call that is under way, or nothing. */
export function callUnderWay(story) {
  return story.status === "running" ? story.items.findLast(/** @returns {item is ToolItem & {startedAt: string}} */ (item) => isUnderWay(item) && Boolean(item.startedAt)) : undefined;
}

/** True when nothing more will come. */
export function isOver(/** @type {Story} */ story) {
  return Boolean(story.end) || OVER.has(story.status);
}

/** @type {ReadonlySet<unknown>} The states a run never leaves. */
export const OVER = new Set(["succeeded", "failed", "cancelled", "dead"]);

/**
 * What the page does with each event type. `fold` changes the story and returns the items it touched; `spoken` is what
 * screen readers announce (whole answers, not pieces); `isPiece` marks pieces of text.
 *
 * @type {Record<string, {fold: (story: Story, event: RunEvent) => Item | (Item | null | undefined)[], spoken?: (event: RunEvent, agent: string, story: Story) => string | false | undefined, isPiece?: boolean}>}
 */
const EVENTS = {
  status: { fold: foldStatus },
  response: { fold: (story, event) => addPiece(story, event, "text"), isPiece: true },
  reasoning: { fold: (story, event) => addPiece(story, event, "thinking"), isPiece: true },
  tool: { fold: foldTool, spoken: (event, agent) => event.arguments && `${agent} uses ${event.name}` },
  tool_progress: { fold: foldProgress },
  tool_log: { fold: foldToolLog, spoken: (event) => LOUD.has(event.level) && `${event.name}: ${event.message}` },
  tool_result: { fold: foldToolResult, spoken: (event) => event.outcome !== "done" && `${event.name}: ${event.outcome === "cancelled" ? "stopped" : event.outcome}` },
  approval: { fold: foldApproval, spoken: approvalSpoken },
  message: { fold: foldMessage },
  child: { fold: folded("child", "child_run_id", "child_run_id", "agent", "status") },
  control: { fold: folded("control", "control_id", "verb", "state", "content"), spoken: (event) => event.state === "undelivered" && `Not delivered: ${event.content ?? event.verb}` },
  handover: { fold: folded("handover", "seq", "to_agent", "reason") },
  history: { fold: (story, event) => event.kind === "rolled_back" ? foldUndone(story) : putItem(story, `history:${event.seq}`, { kind: "history", change: event.kind }) },
  node: { fold: foldNode, spoken: (event) => event.status === "failed" && `${event.node_id} failed` },
  withdrawn: { fold: foldWithdrawn },
  error: { fold: foldError, spoken: (event) => event.message },
  end: { fold: foldEnd, spoken: (event, agent, story) => `${agent}, ${event.status}: ${story.items.findLast((item) => item.kind === "text")?.text.slice(0, 1500) ?? ""}` },
};

const LOUD = new Set(["error", "critical", "alert", "emergency"]);
const MOST_LINES = 100;

/** @type {(event: RunEvent, agent: string, story: Story) => string} Returns what screen readers announce for an event of the agent with this name, or nothing. */
export function spokenOf(event, agent, story) {
  return EVENTS[event.type]?.spoken?.(event, agent, story) || "";
}

/** True for a piece of text, of which many come a second. */
export function isPiece(/** @type {RunEvent} */ event) {
  return Boolean(EVENTS[event.type]?.isPiece);
}

/**
 * Return what folds events of which those with the same `id` are one item, whatever becomes of it.
 *
 * @type {(kind: any, id: string, ...names: string[]) => (story: Story, event: RunEvent) => Item}
 */
function folded(kind, id, ...names) {
  return (story, event) => putItem(story, `${kind}:${event[id]}`, { kind, ...pick(event, ...names) });
}

/** @type {(event: RunEvent, agent: string) => string} */
function approvalSpoken(event, agent) {
  if (event.approved_by && !event.decision) return `${event.name}: approved by ${event.approved_by.join(", ")}, and others have to approve it`;
  if (event.decision) return `${event.name}: ${decisionWords(event.decision)}, decided ${byWords(event)}`;
  return `${agent} needs an answer about ${event.name}. ${event.reason ?? ""}`;
}

/** @type {(story: Story, event: RunEvent) => Item[]} */
function foldStatus(story, event) {
  story.status = event.status;
  story.reason = event.reason;
  story.detail = undefined;
  if (event.agent) story.agent = event.agent;
  if (event.attempt) story.attempt = event.attempt;
  if (event.status !== "running") return [];
  story.startedAt ??= event.at;
  const again = story.items.filter(/** @returns {item is ToolItem} */ (/** @type {any} */ item) => item.asked || item.lost);
  for (const item of again) item.asked = item.lost = false;
  return again;
}

function openCalls(/** @type {Story} */ story) {
  return story.items.filter(isUnderWay);
}

/** @param {Item} item @returns {item is ToolItem} */
function isUnderWay(item) {
  return item.kind === "tool" && !item.outcome && !item.closed && !item.asked;
}

/** @type {(story: Story, event: RunEvent, kind: "text" | "thinking") => Item[]} */
function addPiece(story, event, kind) {
  startIfQueued(story, event);
  story.pieces += 1;
  const key = `${kind}:${event.message_id ?? event.step_id ?? "one"}:${attemptOf(story, kind, event)}`;
  const touched = kind === "text" ? closeThinking(story, event) : [];
  /** @type {TextItem | ThinkingItem} */
  const item = itemOf(story, key) ?? addItem(story, key, { kind, text: "", marks: [], startedAt: event.at, messageId: event.message_id });
  // Each mark is [number, where its piece begins]: what a withdrawal needs to cut it out again.
  item.marks.push([event.seq, item.text.length]);
  item.text += event.content ?? "";
  item.endedAt = event.at;
  return [...touched, item];
}

// After a withdrawal the same message begins again, in an item of its own.
/** @type {(story: Story, kind: "text" | "thinking", event: RunEvent) => number} */
function attemptOf(story, kind, event) {
  return story.items.filter((item) => item.withdrawn && item.kind === kind && item.messageId === event.message_id).length;
}

/** @type {(story: Story, event: RunEvent) => Item[]} */
function closeThinking(story, event) {
  const open = story.items.findLast(/** @returns {item is ThinkingItem} */ (item) => item.kind === "thinking" && !item.closed && !item.withdrawn);
  if (!open) return [];
  open.closed = true;
  open.endedAt = event.at ?? open.endedAt;
  return [open];
}

/** @type {(story: Story, event: RunEvent) => Item[]} */
function foldTool(story, event) {
  startIfQueued(story, event);
  const key = `tool:${event.call_id}`;
  /** @type {ToolItem} */
  const item = itemOf(story, key) ?? addItem(story, key, { kind: "tool", call_id: event.call_id, seq: event.seq, messageId: event.message_id });
  Object.assign(item, pick(event, "name", "arguments", "effect", "policy"));
  if (event.arguments) item.startedAt = event.at;
  return [...closeThinking(story, event), item, ...foldRoute(story)];
}

/** @type {(story: Story, event: RunEvent) => Item} */
function foldProgress(story, event) {
  return putCall(story, event, { name: event.name, progress: pick(event, "done", "total", "message") });
}

/** @type {(story: Story, event: RunEvent) => Item} */
function foldToolLog(story, event) {
  /** @type {ToolItem} */
  const item = putCall(story, event, { name: event.name });
  item.lines = [...(item.lines ?? []), /** @type {LogLine} */ (pick(event, "level", "message", "logger", "left_out"))].slice(-MOST_LINES);
  return item;
}

/** @type {(story: Story, event: RunEvent) => Item[]} */
function foldToolResult(story, event) {
  return [putCall(story, event, pick(event, "name", "outcome", "result", "duration_ms")), ...foldRoute(story)];
}

// A question comes once without and once with the decision; the reason then is the word of the person who decided, and
// the arguments are those the person changed. Between them come the approvals of those before the last one needed.
/** @type {(story: Story, event: RunEvent) => (Item | undefined)[]} */
function foldApproval(story, event) {
  const fields = pick(event, "approval_id", "call_id", "name", "decision", "by");
  const said = event.decision || event.approved_by
    ? { word: event.reason, edited: event.arguments, ...pick(event, "approved_by", "answer", "scope", "until") }
    : { ask: event.kind, ...pick(event, "arguments", "digest", "decisions", "expires_at", "on_expiry", "approvers", "reason", "form", "input_schema", "scopes", "scope_s") };
  const item = putItem(story, `approval:${event.approval_id}`, { kind: "approval", ...fields, ...said }, event.seq);
  /** @type {ToolItem | undefined} */
  const call = itemOf(story, `tool:${event.call_id}`);
  if (call && !call.outcome && !(event.approved_by && !event.decision)) call.asked = event.decision ? null : event.form ? "form" : event.decisions?.includes("approve") ? "call" : "unknown";
  if (call && event.decision && event.arguments) Object.assign(call, { arguments: event.arguments, edited: true });
  return [item, call];
}

/** @type {(story: Story, event: RunEvent) => (Item | null)[]} */
function foldMessage(story, event) {
  if (event.role === "user") {
    if (!story.input) story.input = event.content ?? "";
    return [];
  }
  if (event.role === "tool") return answerCall(story, event);
  if (event.role === "error") return foldFailure(story, event);
  if (event.role !== "assistant") return [];
  return [
    ...closeThinking(story, event),
    finalText(story, event, "thinking", event.reasoning),
    finalText(story, event, "text", event.content),
    ...addCalls(story, event),
  ];
}

/** @type {(story: Story, message: any) => Item[]} Adds a failure that the history holds, unless its event came already. The note of a person's stop has no code. */
export function foldFailure(story, { content, code, seq, number }) {
  const isKnown = story.items.some((item) => item.kind === "error" && item.message === content);
  if (isKnown || !code) return [];
  return [addItem(story, `error:${seq ?? number}:message`, { kind: "error", code, message: content, retryable: false })];
}

// Of a node of a workflow its last event is kept; of one in the body of a FOR_EACH, its last state for each item.
/** @type {(story: Story, event: RunEvent) => Item[]} */
function foldNode(story, event) {
  startIfQueued(story, event);
  const node = ((story.nodes ??= {})[event.node_id] ??= {});
  const [, items] = /^([\d,]+) items$/.exec(event.content ?? "") ?? [];
  if (items && !event.path?.length) node.total = Number(items.replaceAll(",", ""));
  if (event.path?.length) (node.items ??= {})[event.path.join("/")] = event.status;
  else Object.assign(node, node.status === "started" && event.status === "started" ? {} : { [event.status === "started" ? "startedAt" : "endedAt"]: event.at }, pick(event, "status", "branch", "attempt", "duration_ms", "content", "counts"));
  return [];
}

// The message is what entered the history: it makes the text final, whatever its pieces were.
/** @type {(story: Story, event: RunEvent, kind: "text" | "thinking", content: string | undefined) => Item | null} */
function finalText(story, event, kind, content) {
  if (!content) return null;
  const shown = /** @returns {item is TextItem | ThinkingItem} */ (/** @type {Item} */ item) => item.kind === kind && !item.withdrawn && !item.final && item.messageId === event.message_id;
  /** @type {TextItem | ThinkingItem} */
  const item = story.items.findLast(shown) ?? addItem(story, `${kind}:${event.message_id ?? event.seq}:final`, { kind, messageId: event.message_id });
  Object.assign(item, { text: content, marks: [], final: true, closed: true, partial: Boolean(event.partial) });
  return item;
}

/** @type {(story: Story, event: RunEvent) => Item[]} */
function foldWithdrawn(story, event) {
  const lost = (/** @type {number} */ seq) => event.ranges.some((/** @type {[number, number]} */ [first, last]) => seq >= first && seq <= last);
  /** @type {Item[]} */
  const touched = [];
  for (const item of [...story.items]) {
    if (item.final || item.withdrawn) continue;
    if (item.marks) touched.push(...withdrawPieces(story, item, lost));
    else if (item.seq && lost(item.seq) && !item.outcome) touched.push(Object.assign(item, { withdrawn: true }));
  }
  return touched;
}

/** @type {(story: Story, item: TextItem | ThinkingItem, lost: (seq: number) => boolean) => Item[]} */
function withdrawPieces(story, item, lost) {
  const gone = item.marks.filter(([seq]) => lost(seq));
  if (!gone.length) return [];
  if (gone.length === item.marks.length) return [Object.assign(item, { withdrawn: true, closed: true })];
  /** @type {TextItem | ThinkingItem} */
  const kept = { ...item, key: `${item.key}:kept`, text: "", marks: [] };
  let removed = "";
  item.marks.forEach(([seq, start], index) => {
    const piece = item.text.slice(start, item.marks[index + 1]?.[1] ?? item.text.length);
    if (lost(seq)) removed += piece;
    else {
      kept.marks.push([seq, kept.text.length]);
      kept.text += piece;
    }
  });
  Object.assign(item, { text: removed, marks: [], withdrawn: true, closed: true });
  story.items.splice(story.items.indexOf(item), 0, kept);
  return [kept, item];
}

// The tries of one call, or of a model that is asked again at once, are one item, which counts them.
/** @type {(story: Story, event: RunEvent) => Item} */
function foldError(story, event) {
  const fields = pick(event, "code", "message", "retryable", "attempt", "retry_in_ms", "call_id", "to_model");
  const earlier = event.call_id ? story.items.findLast((item) => item.kind === "error" && item.call_id === event.call_id) : story.items.at(-1);
  if (earlier?.kind === "error" && earlier.retryable && !earlier.withdrawn && !earlier.to_model && earlier.call_id === event.call_id) {
    return Object.assign(earlier, { attempt: undefined, retry_in_ms: undefined, ...fields, tries: (earlier.tries ?? 1) + 1 });
  }
  return addItem(story, `error:${event.seq}`, { kind: "error", seq: event.seq, ...fields });
}

/** @type {(story: Story, event: RunEvent) => Item[]} */
function foldEnd(story, event) {
  story.status = event.status;
  story.reason = event.reason;
  story.end = pick(event, "status", "reason", "output", "usage", "cost_usd", "steps", "duration_ms", "work_ms");
  for (const item of story.items) if (item.kind === "approval" && !item.decision) item.over = true;
  const open = story.items.filter((item) => item.kind === "tool" || item.kind === "approval" || ((item.kind === "text" || item.kind === "thinking") && !item.final));
  for (const item of open) item.closed = true;
  return [...open, ...foldRoute(story)];
}

/** @type {(story: Story, event: RunEvent) => void} */
function startIfQueued(story, event) {
  if (story.status === "queued" || story.status === "waiting") story.status = "running";
  story.startedAt ??= event.at;
}

/** @type {(story: Story, key: string) => any} Returns the item with a key, which begins with its kind. */
function itemOf(story, key) {
  return story.items.find((item) => item.key === key);
}

/** @type {(story: Story, key: string, fields: Partial<Item>) => any} Returns the item it made. */
function addItem(story, key, fields) {
  /** @type {any} */
  const item = { key, ...fields };
  story.items.push(item);
  return item;
}

/** @type {(story: Story, event: RunEvent, fields: Partial<ToolItem>) => any} Returns the item of the call that an event is about. */
function putCall(story, event, fields) {
  return putItem(story, `tool:${event.call_id}`, { kind: "tool", call_id: event.call_id, ...fields }, event.seq);
}

/** @type {(story: Story, key: string, fields: Partial<Item>, seq?: number) => any} Returns the item, which is made where there is none. */
function putItem(story, key, fields, seq) {
  const item = itemOf(story, key) ?? addItem(story, key, { seq });
  return Object.assign(item, fields);
}

/**
 * Return the named fields the event has; absent stays absent.
 *
 * @template {object} T
 * @template {keyof T & string} K
 * @param {T} event
 * @param {K[]} names
 * @returns {Partial<Pick<T, K>>}
 */
export function pick(event, ...names) {
  return /** @type {any} */ (Object.fromEntries(names.filter((name) => event[name] !== undefined).map((name) => [name, event[name]])));
}
