// @ts-check
// A thread as SQL holds it, made into the same stories that live events make.

import { foldFailure, foldUndone, isRemoved, newStory, OVER, pick, applyEvent } from "./story.js";
import { addCalls, answerCall, foldRoute } from "./toolCalls.js";

/** @typedef {import("./story.js").Story} Story */

/** @type {(thread: any, messages: any[]) => Story[]} Returns the stories of a thread, oldest first, from its runs and its messages; a message that was removed has none. */
export function storiesOf(thread, messages) {
  const runs = new Map([...(thread.runs ?? [])].sort(byAge).map((run) => [run.run_id, run]));
  /** @type {Map<string, Story>} */
  const stories = new Map();
  const open = (/** @type {string} */ id) => {
    if (!stories.has(id)) stories.set(id, runs.has(id) ? storyOfRun(thread, runs.get(id)) : storyOfWords(thread, id));
    return /** @type {Story} */ (stories.get(id));
  };
  for (const message of messages) addMessage(open(message.run_id ?? `message:${message.number}`), message);
  for (const { run_id: id, undone } of messages) if (undone && OVER.has(stories.get(id)?.status)) foldUndone(/** @type {Story} */ (stories.get(id)));
  for (const id of runs.keys()) open(id);
  return [...stories.values()].filter((story) => !isRemoved(story));
}

/** @type {(story: Story, run: any) => Story} Takes into a story what a run's summary knows. */
export function applySummary(story, run) {
  Object.assign(story, pick(run, "status", "reason", "detail", "agent", "agent_name", "error", "principal", "kind"));
  story.createdAt = run.created_at ?? story.createdAt;
  story.startedAt = run.started_at ?? story.startedAt;
  if (OVER.has(run.status)) {
    story.end = { ...pick(run, "status", "reason", "usage", "cost_usd", "steps", "duration_ms", "work_ms", "output"), ...story.end };
    story.end.duration_ms ??= Date.parse(run.ended_at) - Date.parse(run.started_at ?? run.created_at) || undefined;
  }
  return story;
}

/** @type {(story: Story, events: import("./story.js").RunEvent[]) => Story} Returns the story of an ended run built from its events, with the facts that only the summary has. */
export function rebuild(story, events) {
  const fresh = newStory(pick(story, "run_id", "thread_id", "agent", "agent_name", "input", "createdAt", "principal", "error", "kind"));
  for (const event of events) applyEvent(fresh, event);
  return fresh;
}

/** @type {(thread: any, run: any) => Story} */
function storyOfRun(thread, run) {
  const story = newStory({ run_id: run.run_id, thread_id: thread.thread_id, principal: run.principal ?? thread.principal, agent: run.agent ?? thread.agent });
  return applySummary(story, run);
}

// A run that was removed: its messages are all that is left of it.
/** @type {(thread: any, id: string) => Story} */
function storyOfWords(thread, id) {
  const story = newStory({ run_id: id, thread_id: thread.thread_id, principal: thread.principal, agent: thread.agent, status: "succeeded" });
  return Object.assign(story, { detailing: true }); // There are no events to ask for.
}

/** @type {(story: Story, message: any) => void} */
function addMessage(story, message) {
  if (message.role === "user" && !story.input) addInput(story, message);
  else if (!OVER.has(story.status)) return; // An open run is built from its events, from the first.
  else if (message.control_id) story.items.push({ key: `control:${message.control_id}`, kind: "control", verb: "steer", state: "consumed", content: message.content });
  else if (message.role === "tool") addResult(story, message);
  else if (message.role === "assistant") addAnswer(story, message);
  else if (message.role === "error") foldFailure(story, message);
}

// The call of a run that is one call stands in its first message.
/** @type {(story: Story, message: any) => void} */
function addInput(story, message) {
  Object.assign(story, { input: message.content ?? "", kind: story.kind ?? (message.tool_calls ? "tool" : "agent") });
  if (OVER.has(story.status)) addCalls(story, message);
}

/** @type {(story: Story, message: any) => void} */
function addResult(story, message) {
  answerCall(story, message);
  foldRoute(story);
}

/** @type {(story: Story, message: any) => void} */
function addAnswer(story, message) {
  const base = { final: true, closed: true, marks: [], partial: Boolean(message.partial) };
  const key = `message:${message.number}`;
  if (message.reasoning) story.items.push({ ...base, key: `${key}:thinking`, kind: "thinking", text: message.reasoning });
  if (message.content) story.items.push({ ...base, key: `${key}:text`, kind: "text", text: message.content });
  addCalls(story, message);
}

/** @type {(a: any, b: any) => number} */
function byAge(a, b) {
  return String(a.created_at ?? "").localeCompare(String(b.created_at ?? ""));
}
