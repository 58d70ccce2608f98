// A run's story: its events folded into the things a reader sees. Plain data, so that it can be stored and compared.

import { foldRoute, ToolCalls } from "./toolCalls.js";
import { byWords, decisionWords } from "./words.js";

/** Return the story of a run of which no event has come yet. */
export function newStory(facts = {}) {
  return { cursor: 0, status: "queued", items: [], input: "", pieces: 0, ...facts };
}

/**
 * Fold one event into the story and return the items it touched, or null when the story had it already.
 *
 * Items are text, thinking, tool, approval, error, child and note; each has a `key` that never changes.
 */
export function applyEvent(story, event) {
  if (event.seq <= story.cursor) return null;
  story.cursor = event.seq;
  if (event.at) story.lastAt = event.at;
  const known = EVENTS[event.type];
  return known ? [known.fold(story, event)].flat().filter(Boolean) : [];
}

/**
 * Take from a run's summary that its worker was lost, and return the items that this cuts off, or null. No event says so
 * until another worker continues; a summary of an attempt before the story's is an older one.
 */
export function noteLoss(story, { status, reason, attempt = 0 }) {
  if (story.status !== "running" || status !== "queued" || reason !== "worker_lost" || attempt < (story.attempt ?? 0)) return null;
  Object.assign(story, { status, reason });
  return openCalls(story).map((item) => Object.assign(item, { lost: true }));
}

/** True while an approval can still be answered. */
export function isOpen(item) {
  return item.kind === "approval" && !item.decision && !item.over;
}

/** Note that no model gets this turn again, in one item. */
export function foldUndone(story) {
  story.undone = true;
  return putItem(story, "undone", { kind: "history", change: "rolled_back" });
}

/** True of a message that was removed before its run began: it was no turn. */
export function isRemoved(story) {
  return Boolean(story.undone && !story.startedAt && OVER.has(story.status) && story.items.every((item) => item.kind === "history" || item.kind === "control"));
}

/** Return the call that is under way, or nothing. */
export function callUnderWay(story) {
  return story.status === "running" ? story.items.findLast((item) => item.startedAt && isUnderWay(item)) : undefined;
}

/** True when nothing more will come. */
export function isOver(story) {
  return Boolean(story.end) || OVER.has(story.status);
}

/** The states a run never leaves. */
export const OVER = new Set(["succeeded", "failed", "cancelled", "dead"]);

/**
 * What the page does with each event type. `fold` changes the story and returns the items it touched; `spoken` is what
 * screen readers announce (whole answers, not pieces); `isPiece` marks pieces of text.
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
  child: { fold: (story, event) => putItem(story, `child:${event.child_run_id}`, { kind: "child", ...pick(event, "child_run_id", "agent", "status") }) },
  control: { fold: foldControl, spoken: (event) => event.state === "undelivered" && `Not delivered: ${event.content ?? event.verb}` },
  handover: { fold: (story, event) => putItem(story, `handover:${event.seq}`, { kind: "handover", ...pick(event, "from_agent", "to_agent", "reason") }) },
  history: { fold: (story, event) => event.kind === "rolled_back" ? foldUndone(story) : putItem(story, `history:${event.seq}`, { kind: "history", change: event.kind, ...pick(event, "from_seq", "to_seq", "summary") }) },
  node: { fold: foldNode, spoken: (event) => event.status === "failed" && `${event.node_id} failed` },
  withdrawn: { fold: foldWithdrawn },
  error: { fold: foldError, spoken: (event) => event.message },
  end: { fold: foldEnd, spoken: (event, agent, story) => `${agent}, ${event.status}: ${story.items.findLast((item) => item.kind === "text")?.text.slice(0, 1500) ?? ""}` },
};

const LOUD = new Set(["error", "critical", "alert", "emergency"]);
const MOST_LINES = 100;

/** Return what screen readers announce for an event of the agent with this name, or nothing. */
export function spokenOf(event, agent, story) {
  return EVENTS[event.type]?.spoken?.(event, agent, story) || "";
}

/** True for a piece of text, of which many come a second. */
export function isPiece(event) {
  return Boolean(EVENTS[event.type]?.isPiece);
}

/** A control is one item, whatever becomes of it: a steer shows its text, the others what was requested. */
function foldControl(story, event) {
  return putItem(story, `control:${event.control_id}`, { kind: "control", ...pick(event, "control_id", "verb", "state", "by", "content", "reason") });
}

function approvalSpoken(event, agent) {
  if (event.approved_by && !event.decision) return `${event.name}: approved by ${event.approved_by.join(", ")}, and others have to approve it`;
  if (event.decision) return `${event.name}: ${decisionWords(event.decision)}, decided ${byWords(event)}`;
  return `${agent} needs an answer about ${event.name}. ${event.reason ?? ""}`;
}

function foldStatus(story, event) {
  story.status = event.status;
  story.reason = event.reason;
  story.detail = undefined;
  if (event.agent) story.agent = event.agent;
  if (event.attempt) story.attempt = event.attempt;
  if (event.status !== "running") return [];
  story.startedAt ??= event.at;
  const again = story.items.filter((item) => item.asked || item.lost);
  for (const item of again) item.asked = item.lost = false;
  return again;
}

function openCalls(story) {
  return story.items.filter(isUnderWay);
}

function isUnderWay(item) {
  return item.kind === "tool" && !item.outcome && !item.closed && !item.asked;
}

function addPiece(story, event, kind) {
  startIfQueued(story, event);
  story.pieces += 1;
  const key = `${kind}:${event.message_id ?? event.step_id ?? "one"}:${attemptOf(story, kind, event)}`;
  const touched = kind === "text" ? closeThinking(story, event) : [];
  const item = itemOf(story, key) ?? addItem(story, key, { kind, text: "", marks: [], startedAt: event.at, messageId: event.message_id });
  // Each mark is [number, where its piece begins]: what a withdrawal needs to cut it out again.
  item.marks.push([event.seq, item.text.length]);
  item.text += event.content ?? "";
  item.endedAt = event.at;
  return [...touched, item];
}

// After a withdrawal the same message begins again, in an item of its own.
function attemptOf(story, kind, event) {
  return story.items.filter((item) => item.withdrawn && item.kind === kind && item.messageId === event.message_id).length;
}

function closeThinking(story, event) {
  const open = story.items.findLast((item) => item.kind === "thinking" && !item.closed && !item.withdrawn);
  if (!open) return [];
  open.closed = true;
  open.endedAt = event.at ?? open.endedAt;
  return [open];
}

function foldTool(story, event) {
  startIfQueued(story, event);
  const key = `tool:${event.call_id}`;
  const item = itemOf(story, key) ?? addItem(story, key, { kind: "tool", call_id: event.call_id, seq: event.seq, messageId: event.message_id });
  Object.assign(item, pick(event, "name", "arguments", "content", "effect", "policy"));
  if (event.arguments) item.startedAt = event.at;
  return [...closeThinking(story, event), item, ...foldRoute(story)];
}

function foldProgress(story, event) {
  return putItem(story, `tool:${event.call_id}`, { kind: "tool", call_id: event.call_id, name: event.name, progress: pick(event, "done", "total", "message") }, event.seq);
}

function foldToolLog(story, event) {
  const item = putItem(story, `tool:${event.call_id}`, { kind: "tool", call_id: event.call_id, name: event.name }, event.seq);
  item.lines = [...(item.lines ?? []), pick(event, "level", "message", "logger", "left_out")].slice(-MOST_LINES);
  return item;
}

function foldToolResult(story, event) {
  const item = putItem(story, `tool:${event.call_id}`, {
    kind: "tool", call_id: event.call_id, ...pick(event, "name", "outcome", "result", "duration_ms"),
  }, event.seq);
  return [item, ...foldRoute(story)];
}

// A question comes once without and once with the decision; the reason then is the word of the person who decided, and
// the arguments are those the person changed. Between them come the approvals of those before the last one needed.
function foldApproval(story, event) {
  const fields = pick(event, "approval_id", "call_id", "name", "decision", "by");
  const said = event.decision || event.approved_by
    ? { word: event.reason, edited: event.arguments, ...pick(event, "approved_by", "answer", "scope", "until") }
    : { ask: event.kind, ...pick(event, "arguments", "digest", "decisions", "expires_at", "on_expiry", "approvers", "reason", "form", "input_schema", "scopes", "scope_s") };
  const item = putItem(story, `approval:${event.approval_id}`, { kind: "approval", ...fields, ...said }, event.seq);
  const call = itemOf(story, `tool:${event.call_id}`);
  if (call && !call.outcome && !(event.approved_by && !event.decision)) call.asked = event.decision ? null : event.form ? "form" : event.decisions?.includes("approve") ? "call" : "unknown";
  if (call && event.decision && event.arguments) Object.assign(call, { arguments: event.arguments, edited: true });
  return [item, call];
}

function foldMessage(story, event) {
  if (event.role === "user") {
    if (!story.input) story.input = event.content ?? "";
    return [];
  }
  if (event.role === "tool") return new ToolCalls(story).answer(event);
  if (event.role === "error") return foldFailure(story, event);
  if (event.role !== "assistant") return [];
  return [
    ...closeThinking(story, event),
    finalText(story, event, "thinking", event.reasoning),
    finalText(story, event, "text", event.content),
    ...new ToolCalls(story).ask(event),
  ];
}

/** Add a failure that the history holds, unless its event came already. The note of a person's stop has no code. */
export function foldFailure(story, { content, code, seq, number }) {
  const isKnown = story.items.some((item) => item.kind === "error" && item.message === content);
  if (isKnown || !code) return [];
  return [addItem(story, `error:${seq ?? number}:message`, { kind: "error", code, message: content, retryable: false })];
}

// Of a node of a workflow its last event is kept; of one in the body of a FOR_EACH, its last state for each item.
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
function finalText(story, event, kind, content) {
  if (!content) return null;
  const shown = (item) => item.kind === kind && !item.withdrawn && !item.final && item.messageId === event.message_id;
  const item = story.items.findLast(shown) ?? addItem(story, `${kind}:${event.message_id ?? event.seq}:final`, { kind, messageId: event.message_id });
  Object.assign(item, { text: content, marks: [], final: true, closed: true, partial: Boolean(event.partial) });
  return item;
}

function foldWithdrawn(story, event) {
  const lost = (seq) => event.ranges.some(([first, last]) => seq >= first && seq <= last);
  const touched = [];
  for (const item of [...story.items]) {
    if (item.final || item.withdrawn) continue;
    if (item.marks) touched.push(...withdrawPieces(story, item, lost));
    else if (item.seq && lost(item.seq) && !item.outcome) touched.push(Object.assign(item, { withdrawn: true }));
  }
  return touched;
}

function withdrawPieces(story, item, lost) {
  const gone = item.marks.filter(([seq]) => lost(seq));
  if (!gone.length) return [];
  if (gone.length === item.marks.length) return [Object.assign(item, { withdrawn: true, closed: true })];
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
function foldError(story, event) {
  const fields = pick(event, "code", "message", "retryable", "attempt", "retry_in_ms", "call_id", "from_model", "to_model");
  const earlier = event.call_id ? story.items.findLast((item) => item.kind === "error" && item.call_id === event.call_id) : story.items.at(-1);
  if (earlier?.kind === "error" && earlier.retryable && !earlier.withdrawn && !earlier.to_model && earlier.call_id === event.call_id) {
    return Object.assign(earlier, { attempt: undefined, retry_in_ms: undefined, ...fields, tries: (earlier.tries ?? 1) + 1 });
  }
  return addItem(story, `error:${event.seq}`, { kind: "error", seq: event.seq, at: event.at, ...fields });
}

function foldEnd(story, event) {
  story.status = event.status;
  story.reason = event.reason;
  story.end = pick(event, "status", "reason", "output", "usage", "cost_usd", "steps", "duration_ms", "work_ms");
  for (const item of story.items) if (item.kind === "approval" && !item.decision) item.over = true;
  const open = story.items.filter((item) => item.kind === "tool" || item.kind === "approval" || ((item.kind === "text" || item.kind === "thinking") && !item.final));
  for (const item of open) item.closed = true;
  return [...open, ...foldRoute(story)];
}

function startIfQueued(story, event) {
  if (story.status === "queued" || story.status === "waiting") story.status = "running";
  story.startedAt ??= event.at;
}

function itemOf(story, key) {
  return story.items.find((item) => item.key === key);
}

function addItem(story, key, fields) {
  const item = { key, ...fields };
  story.items.push(item);
  return item;
}

function putItem(story, key, fields, seq) {
  const item = itemOf(story, key) ?? addItem(story, key, { seq });
  return Object.assign(item, fields);
}

/** Return the named fields the event has; absent stays absent. */
export function pick(event, ...names) {
  return Object.fromEntries(names.filter((name) => event[name] !== undefined).map((name) => [name, event[name]]));
}
