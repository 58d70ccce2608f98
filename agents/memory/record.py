"""What of a thread is summarised and when, as the model is given it, and the facts that a summary keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import orjson

from agents.models.cost import window_tokens
from agents.prompt import Window, first_unanswered, passed, readable_call
from bus.journal.owner import HistoryItem, Past
from config.definitions.agent import AgentDefinition
from config.definitions.model_fields import Compaction
from config.text.visible import visible

CHARS_A_TOKEN = 4
KEPT_CHARS_PART, KEPT_TURNS_PART = 4, 16
"""Behind a summary at most one such part of each limit stays as it is, so that the next summary is far away."""
TEXT_PART, MAX_TEXT_CHARS = 8, 8000
"""A summary's text takes at most one such part of the limit, and so do its facts."""
MAX_MESSAGE_CHARS, MAX_ARGUMENTS_CHARS = 4000, 1000
"""Characters of one message, and of the arguments of its calls, that the summary is made from."""
MAX_CALL_CHARS, MAX_VALUE_CHARS = 200, 300
"""Characters of the line about a call, and of a pinned fact."""
NOT_THERE = "-"
"""What the model writes for a pinned fact that the record does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionLimits:
    """How much of a thread a model is shown as it is, and from when on it is summarised."""

    max_chars: int
    """More is summarised."""
    max_turns: int

    @property
    def kept_chars(self) -> int:
        return self.max_chars // KEPT_CHARS_PART

    @property
    def kept_turns(self) -> int:
        return max(self.max_turns // KEPT_TURNS_PART, 1)

    @property
    def text_chars(self) -> int:
        return min(self.max_chars // TEXT_PART, MAX_TEXT_CHARS)

    def are_passed(self, window: Window) -> bool:
        """Return whether messages that no summary replaces are more than the model is to be shown."""
        return window.is_cut or window.chars > self.max_chars or window.turns > self.max_turns


def limits_of(definition: AgentDefinition, model: str) -> CompactionLimits:
    """Return the limits of an agent's threads: a share of its history, or of the model's window where that is less."""
    compaction: Compaction = definition.compaction
    tokens, chars = window_tokens(model), definition.history_chars
    limit = chars if tokens is None else min(chars, tokens * CHARS_A_TOKEN)
    return CompactionLimits(max_chars=int(limit * compaction.at), max_turns=compaction.turns)


# --- what is summarised


def replaceable(past: Past, limits: CompactionLimits, before_turn: int) -> list[HistoryItem]:
    """Return the messages to summarise: those that truncation leaves out of a window of the kept size.

    All are of turns before ``before_turn``: what an open run was given stays. A call and its results stay together.
    What a prompt guard has refused, also behind the boundary, or may yet refuse since it is unanswered, is left out.
    """
    if not limits.are_passed(Window(replace(past, summary=None), 2**62)):
        return []  # another worker has summarised it meanwhile
    chars = min(limits.kept_chars, _chars_of_newest(past.items, limits.kept_turns))
    first_id = Window(replace(past, summary=None), chars).first_id
    items = list(takewhile(lambda item: item.id != first_id and item.turn < before_turn, past.items))
    judged = passed(past.items)
    answered = {item.id for item in judged[: first_unanswered(judged)]}
    return [item for item in _without_open_calls(items, past.items[len(items) :]) if item.id in answered]


def _chars_of_newest(items: Sequence[HistoryItem], turns: int) -> int:
    """Return how many characters the newest turns have."""
    chars = 0
    for item in reversed(items):
        chars += item.chars
        turns -= item.role == "user"
        if turns == 0:
            break
    return chars


def _without_open_calls(items: list[HistoryItem], kept: Sequence[HistoryItem]) -> list[HistoryItem]:
    """Return the items up to the first one that has a call whose result is kept."""
    called = {call["call_id"] for item in kept for call in item.data.get("tool_calls") or ()}
    open_calls = {item.data["call_id"] for item in kept if item.role == "tool"} - called
    is_open = [any(call["call_id"] in open_calls for call in item.data.get("tool_calls") or ()) for item in items]
    return items[: is_open.index(True)] if True in is_open else items


def record_of(items: Iterable[HistoryItem]) -> str:
    """Return messages as JSON lines, so that no text in one can look like another."""
    lines = (_line(item) for item in passed(list(items)) if item.role != "error")
    return "\n".join(orjson.dumps(line).decode() for line in lines)


def _line(item: HistoryItem) -> dict[str, Any]:
    data, line = item.data, {"number": item.number, "role": item.role}
    if item.role == "tool":
        result = data.get("result")
        text = result if isinstance(result, str) else orjson.dumps(result).decode()
        line |= {"call_id": data["call_id"], "outcome": data.get("outcome")}
    else:
        text = data.get("content") or ""
    line["text"] = text[:MAX_MESSAGE_CHARS]
    calls = data.get("tool_calls") or ()
    if calls:
        named = [(call["call_id"], call["name"], str(call.get("arguments_text"))) for call in calls]
        line["calls"] = [f"{name}({arguments[:MAX_ARGUMENTS_CHARS]}) {call_id}" for call_id, name, arguments in named]
    return line


# --- what a summary has besides its text


def facts_of(past: Past, items: Sequence[HistoryItem], pinned: Mapping[str, str], max_chars: int) -> dict[str, Any]:
    """Return the facts of a summary: pinned ones, and tool calls with their outcomes, those of the last one included.

    The newest calls that fit stay word for word; of the others their number stays.
    """
    earlier = past.summary.facts if past.summary is not None else {}
    facts: dict[str, Any] = {"pinned": {**earlier.get("pinned", {}), **pinned}}
    lines = [*earlier.get("calls", ()), *_call_lines(items)]
    chars, kept = len(orjson.dumps(facts)) + 40, list[str]()
    for line in reversed(lines):
        chars += len(orjson.dumps(line)) + 1
        if chars > max_chars:
            break
        kept.insert(0, line)
    left_out = earlier.get("left_out", 0) + len(lines) - len(kept)
    return facts | {"calls": kept} | ({"left_out": left_out} if left_out else {})


def _call_lines(items: Sequence[HistoryItem]) -> Iterator[str]:
    outcomes = {item.data["call_id"]: item.data.get("outcome") for item in items if item.role == "tool"}
    for item in items:
        for call in item.data.get("tool_calls") or ():
            text = visible(readable_call(call["name"], call.get("arguments") or {}))[:MAX_CALL_CHARS]
            yield f"#{item.number} {text} {call['call_id']}: {outcomes.get(call['call_id']) or 'no result'}"


def parted(text: str, names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the pinned facts that a model has stated, and the rest of its answer."""
    names_by_key, pinned, lines = {name.casefold(): name for name in names}, dict[str, str](), text.strip().split("\n")
    while lines:
        name, colon, value = lines[0].strip(" -*`").partition(":")
        if not colon or name.strip(" *`").casefold() not in names_by_key:
            break
        value = value.strip(" *`")
        if value and value != NOT_THERE:
            pinned[names_by_key[name.strip(" *`").casefold()]] = value[:MAX_VALUE_CHARS]
        lines.pop(0)
    return pinned, "\n".join(lines).strip()
