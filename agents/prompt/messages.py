"""Builds a call's messages: the system prompt, and the history in OpenAI's format with a result for every call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from agents.tools.tool import Tool
from bus.journal.owner import HistoryItem
from config.definitions.agent import AgentDefinition

Message = dict[str, Any]

FINAL_TURN_PROMPT = (
    "You have used all the tool calls you may make for this answer. Answer now with what you know, without calling "
    "tools, and say plainly what is still missing."
)
LOST_RESULT = "No result: the call was interrupted, and it is not known whether it took effect."
LEFT_OUT = (
    "This conversation has grown long, so older messages were left out and you see its newest part; if something you "
    "need is missing, say so."
)
EDITED = "A person changed the arguments to {arguments} before the call was made.\n"
RESULT_CUT = "\n[cut here: {shown:,} of {whole:,} characters are shown; ask for less at once to see the rest]"


def messages_for(
    definition: AgentDefinition, history: Sequence[HistoryItem], *, is_cut: bool, max_result_chars: int
) -> list[Message]:
    """Return the messages of a model call; they state where the history or a result is truncated."""
    prompt = definition.system_prompt.rstrip()
    if definition.output_schema is not None:
        schema = orjson.dumps(definition.output_schema).decode()
        prompt += f"\n\nAnswer with one JSON object and nothing else. It has to fit this JSON Schema:\n{schema}"
    if is_cut:
        prompt += f"\n\n{LEFT_OUT}"
    return [{"role": "system", "content": prompt}, *_conversation(history, max_result_chars)]


def _conversation(history: Sequence[HistoryItem], max_result_chars: int) -> Iterable[Message]:
    """Yield the history; a call without a result gets one, since providers refuse the conversation otherwise."""
    unanswered: dict[str, str] = {}
    for item in history:
        if item.role == "tool":
            if unanswered.pop(item.data["call_id"], None) is not None:
                result = _shown(item.data.get("result"), max_result_chars, item.data.get("edited"))
                yield _tool_message(item.data["call_id"], item.data.get("name", ""), result)
            continue
        if item.role == "error":
            continue
        yield from _lost(unanswered)
        unanswered = {}
        calls = item.data.get("tool_calls") or ()
        if item.role == "user":
            yield {"role": "user", "content": item.data.get("content") or ""}
            if calls:  # made by a run of kind ``tool``
                yield {"role": "assistant", "content": None, "tool_calls": _functions(calls)}
        elif item.role == "assistant":
            message = _assistant_message(item.data)
            if message is None:
                continue
            yield message
        unanswered = {call["call_id"]: call["name"] for call in calls}
    yield from _lost(unanswered)


def _lost(unanswered: Mapping[str, str]) -> Iterable[Message]:
    for call_id, name in unanswered.items():
        yield _tool_message(call_id, name, LOST_RESULT)


def _assistant_message(data: Mapping[str, Any]) -> Message | None:
    message: Message = {"role": "assistant", "content": data.get("content") or None}
    calls = data.get("tool_calls")
    if calls:
        message["tool_calls"] = _functions(calls)
    if data.get("thinking_blocks"):
        message["thinking_blocks"] = data["thinking_blocks"]
    return message if message["content"] or calls else None


def _functions(calls: Iterable[Mapping[str, Any]]) -> list[Message]:
    return [
        {
            "id": call["call_id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments_text"] or "{}"},
        }
        for call in calls
    ]


def _shown(result: Any, max_chars: int, edited: Mapping[str, Any] | None) -> str:
    """Return a result as it is sent to the model, truncated with a note where it is longer than ``max_chars``.

    Before it comes a note of the arguments where a person changed them.
    """
    text = _edited(edited) + (result if isinstance(result, str) else orjson.dumps(result).decode())
    return text if len(text) <= max_chars else text[:max_chars] + RESULT_CUT.format(shown=max_chars, whole=len(text))


def _edited(arguments: Mapping[str, Any] | None) -> str:
    """Return the note before the result of a call whose arguments a person changed."""
    return "" if arguments is None else EDITED.format(arguments=orjson.dumps(arguments).decode())


def _tool_message(call_id: str, name: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


def offered(tools: Mapping[str, Tool]) -> list[Message]:
    """Return tools in OpenAI's format."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools.values()
    ]
