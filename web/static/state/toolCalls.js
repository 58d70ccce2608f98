// @ts-check
// Tool calls as they stand in messages, where providers' shapes differ.

/** @typedef {import("./story.js").Story} Story */
/** @typedef {import("./story.js").ToolItem} ToolItem */

/** @type {(story: Story, message: any) => ToolItem[]} Adds the calls an assistant message makes, but for those whose events the story has seen; returns the items that are new. */
export function addCalls(story, message) {
  /** @type {ToolItem[]} */
  const added = [];
  for (const call of message.tool_calls ?? []) {
    const id = call.call_id ?? call.id;
    if (!id || itemOf(story, id)) continue;
    /** @type {ToolItem} */
    const item = { key: `tool:${id}`, kind: "tool", call_id: id, name: call.name ?? call.function?.name ?? "tool", arguments: argumentsOf(call) };
    story.items.push(item);
    added.push(item);
  }
  return added;
}

/** @type {(story: Story, message: any) => ToolItem[]} Gives a call the answer a tool message holds, unless its result event came first. */
export function answerCall(story, message) {
  const item = itemOf(story, message.call_id);
  if (!item || item.outcome) return [];
  return [Object.assign(item, { outcome: message.outcome ?? "done", result: message.result ?? message.content })];
}

/**
 * Give a run whose one call is an agent that a route chose that agent's answer as its text; the call then has no card.
 * Returns the items it touched.
 *
 * @type {(story: Story) => import("./story.js").Item[]}
 */
export function foldRoute(story) {
  const [call, ...others] = story.items.filter((item) => item.kind === "tool");
  if (!call || others.length) return [];
  call.routed = isRouted(story, call);
  const answer = call.outcome === "done" ? wordsOf(call.result) : "";
  const key = `route:${call.call_id}`;
  if (!call.routed || !answer || story.items.some((item) => item.key === key)) return [call];
  /** @type {import("./story.js").ChildItem} */
  const child = { key: `child:${call.call_id}`, kind: "child", agent: call.name, status: "succeeded" };
  /** @type {import("./story.js").TextItem} */
  const text = { key, kind: "text", text: answer, marks: [], final: true, closed: true };
  const added = story.items.some((item) => item.kind === "child") ? [text] : [child, text];
  story.items.push(...added);
  return [call, ...added];
}

// Until the run's kind is known, it is the end that tells a route from a model that passes the message on.
/** @type {(story: Story, call: ToolItem) => boolean} */
function isRouted(story, { arguments: given, call_id: id, result }) {
  const passesOn = given?.message === story.input && Object.keys(given).length === 1;
  const isSilent = story.items.every((item) => item.key === `route:${id}` || (item.kind !== "text" && item.kind !== "thinking"));
  return passesOn && isSilent && (story.kind ? story.kind === "tool" : story.end?.status === "succeeded" && wordsOf(story.end.output) === wordsOf(result));
}

// A structured answer is shown as the run's output.
function wordsOf(/** @type {unknown} */ result) {
  return result === null || result === undefined || typeof result === "object" ? "" : String(result);
}

/** @type {(story: Story, callId: string) => ToolItem | undefined} */
function itemOf(story, callId) {
  return story.items.find(/** @returns {item is ToolItem} */ (item) => item.kind === "tool" && item.call_id === callId);
}

function argumentsOf(/** @type {any} */ call) {
  const given = call.arguments ?? call.function?.arguments;
  if (typeof given !== "string") return given ?? {};
  try {
    return JSON.parse(given);
  } catch {
    return { "": given };
  }
}
