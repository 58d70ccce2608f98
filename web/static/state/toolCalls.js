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

function argumentsOf(call) {
  const given = call.arguments ?? call.function?.arguments;
  if (typeof given !== "string") return given ?? {};
  try {
    return JSON.parse(given);
  } catch {
    return { "": given };
  }
}
