"""What the messages of a request say: the sentence, what was done about it, and what was said before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_CHARS = 600
"""How much of what the user said is read. Its patterns are simple ones, and slow on long texts."""
_FAILURES = (
    "error",
    "failed",
    "refused",
    "the call was not made",
    "there is no tool",
    "no result",
    "stopped by the user",
)
"""How the loop begins what it tells a model instead of a result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A tool call of this turn, with its result."""

    name: str
    arguments: Mapping[str, Any]
    result: Any
    """As the tool gave it: text, or what its JSON says."""
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A request, read."""

    sentence: str
    """The last thing the user said."""
    rounds: int = 0
    """How often tools were called since."""
    done: Sequence[Done] = field(default_factory=tuple)
    """What they answered, in order."""
    first: bool = True
    """Whether nothing was answered before this sentence."""
    said: str = ""
    """The answer before this sentence."""
    number: str | None = None
    """The last number that was calculated before this sentence."""


def read_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return what ``messages`` (in OpenAI's form) say."""
    users = [position for position, message in enumerate(messages) if message.get("role") == "user"]
    start = users[-1] if users else len(messages)
    before, after = messages[:start], messages[start + 1 :]
    answers = [text_of(message) for message in before if message.get("role") == "assistant"]
    answers = [text for text in answers if text]
    return Conversation(
        sentence=text_of(messages[start]).strip()[:MAX_CHARS] if users else "",
        rounds=sum(1 for message in after if message.get("tool_calls")),
        done=_done(after),
        first=not answers,
        said=answers[-1] if answers else "",
        number=_last_number(before),
    )


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, also of one in parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _done(messages: Sequence[Mapping[str, Any]]) -> tuple[Done, ...]:
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    found: list[Done] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            calls[str(call.get("id"))] = (str(function.get("name")), _mapping(function.get("arguments")))
        if message.get("role") == "tool":
            name, arguments = calls.get(str(message.get("tool_call_id")), (str(message.get("name")), {}))
            text = text_of(message)
            found.append(Done(name=name, arguments=arguments, result=_value(text), failed=_is_failure(text)))
    return tuple(found)


def _last_number(messages: Sequence[Mapping[str, Any]]) -> str | None:
    results = [item.result for item in _done(messages) if item.name == "calculator" and not item.failed]
    return str(results[-1]) if results else None


def _is_failure(text: str) -> bool:
    """Guess whether a result tells of a failure; what marks one is the loop's choice of words."""
    start = text.lstrip()[:200].lower()
    if start.startswith(_FAILURES):
        return True
    value = _value(text)
    return isinstance(value, dict) and ("error" in value or value.get("outcome") in ("failed", "refused", "unknown"))


def _mapping(text: Any) -> dict[str, Any]:
    value = _value(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else {}


def _value(text: str) -> Any:
    """Return what JSON objects and lists say; any other text, also a number, stays as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
