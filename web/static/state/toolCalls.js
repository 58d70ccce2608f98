// Tool calls as they stand in messages, where providers' shapes differ.

/** Reads the tool calls of messages into a story that may have seen their events already. */
export class ToolCalls {
  constructor(story) {
    this.story = story;
  }

  /** Add the calls an assistant message makes; returns the items that were new. */
  ask(message) {
    const added = [];
    for (const call of message.tool_calls ?? []) {
      const id = call.call_id ?? call.id;
      if (!id || this.#item(id)) continue;
      const item = { key: `tool:${id}`, kind: "tool", call_id: id, name: call.name ?? call.function?.name ?? "tool", arguments: argumentsOf(call) };
      this.story.items.push(item);
      added.push(item);
    }
    return added;
  }

  /** Give a call the answer a tool message holds, unless its result event came first. */
  answer(message) {
    const item = this.#item(message.call_id);
    if (!item || item.outcome) return [];
    Object.assign(item, { outcome: message.outcome ?? "done", result: message.result ?? message.content });
    return [item];
  }

  #item(callId) {
    return this.story.items.find((item) => item.kind === "tool" && item.call_id === callId);
  }
}

/**
 * Give a run whose one call is an agent that a route chose that agent's answer as its text; the call then has no card.
 * Returns the items it touched.
 */
export function foldRoute(story) {
  const [call, ...others] = story.items.filter((item) => item.kind === "tool");
  if (!call || others.length) return [];
  call.routed = isRouted(story, call);
  const answer = call.outcome === "done" ? wordsOf(call.result) : "";
  const key = `route:${call.call_id}`;
  if (!call.routed || !answer || story.items.some((item) => item.key === key)) return [call];
  const child = { key: `child:${call.call_id}`, kind: "child", agent: call.name, status: "succeeded" };
  const text = { key, kind: "text", text: answer, marks: [], final: true, closed: true };
  const added = story.items.some((item) => item.kind === "child") ? [text] : [child, text];
  story.items.push(...added);
  return [call, ...added];
}

// Until the run's kind is known, it is the end that tells a route from a model that passes the message on.
function isRouted(story, { arguments: given, call_id: id, result }) {
  const passesOn = given?.message === story.input && Object.keys(given).length === 1;
  const isSilent = story.items.every((item) => item.key === `route:${id}` || (item.kind !== "text" && item.kind !== "thinking"));
  return passesOn && isSilent && (story.kind ? story.kind === "tool" : story.end?.status === "succeeded" && wordsOf(story.end.output) === wordsOf(result));
}

// A structured answer is shown as the run's output.
function wordsOf(result) {
  return result === null || result === undefined || typeof result === "object" ? "" : String(result);
}

function argumentsOf(call) {
  const given = call.arguments ?? call.function?.arguments;
  if (typeof given !== "string") return given ?? {};
  try {
    return JSON.parse(given);
  } catch {
    return { "": given };
  }
}
