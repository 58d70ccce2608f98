"""The texts of a run: what callers give it, and what a model gets of a conversation, as messages of a call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import orjson

from agents.errors import INPUT_EMPTY, INPUT_TOO_LARGE, PROMPT_GUARD_FAILED
from agents.tools.tool import Tool
from config.definitions.agent import AgentDefinition
from config.errors import BadRequest
from config.text.stored_texts import stored_name

if TYPE_CHECKING:
    from bus.journal.owner import HistoryItem, Past, Summary

# --- the texts that callers give a run

MAX_THREAD_ID = 128
MAX_TOOL_NAME = 128
MAX_ARGUMENTS_BYTES = 1024 * 1024
"""Largest arguments of a call, as JSON; as large as a model's may be."""
MAX_SHOWN = 400
"""Characters of the arguments in the readable form of a call."""


def check_thread_id(thread_id: str) -> str:
    """Return a text that can be the name of a thread.

    Raises:
        BadRequest: it cannot.
    """
    _check_text(thread_id, "the thread id")
    if not 0 < len(thread_id) <= MAX_THREAD_ID or not thread_id.isprintable() or thread_id != thread_id.strip():
        raise BadRequest(f"a thread id has 1 to {MAX_THREAD_ID} printable characters and no blanks around it.")
    stored_name(thread_id, "the thread id")
    if "/" in thread_id:
        raise BadRequest("a thread id has no '/', since it is part of URLs; use ':' or '-'.")
    if thread_id in (".", ".."):
        raise BadRequest(f"a thread id may not be '{thread_id}', which URLs leave out; choose a name.")
    return thread_id


def check_objective(objective: str, max_chars: int) -> str:
    """Return a text that can be the input of a run.

    Raises:
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest: it cannot; ``max_chars`` is the limit.
    """
    if not isinstance(objective, str):
        raise BadRequest(f"the input has to be text, and this is {type(objective).__name__}.")
    if not objective.strip():
        raise INPUT_EMPTY()
    if len(objective) > max_chars:
        raise INPUT_TOO_LARGE(size=len(objective), limit=max_chars)
    _check_text(objective, "the input")
    return objective


def check_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the readable form of a call that a run can make.

    Raises:
        BadRequest: the name or the arguments are no text, or no JSON object.
        INPUT_TOO_LARGE: the arguments are larger than a model's may be.
    """
    if not 0 < len(name) <= MAX_TOOL_NAME or not name.isprintable():
        raise BadRequest(f"the name of a tool has 1 to {MAX_TOOL_NAME} printable characters.")
    stored_name(name, "the name of the tool")
    try:
        text = orjson.dumps(dict(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest("the arguments are no JSON data: use text, numbers, lists and objects.") from error
    if len(text) > MAX_ARGUMENTS_BYTES:
        raise INPUT_TOO_LARGE(size=len(text), limit=MAX_ARGUMENTS_BYTES)
    return readable_call(name, arguments)


def readable_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in readable form: ``calculator(expression="17 * 23")``."""
    argument_text = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in arguments.items())
    return f"{name}({argument_text if len(argument_text) <= MAX_SHOWN else argument_text[: MAX_SHOWN - 1] + '…'})"


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{what} has half a character at position {error.start} (a lone surrogate); send whole characters."
        ) from error
    if "\0" in text:
        raise BadRequest(f"{what} has the character NUL at position {text.index(chr(0))}; leave it out.")


# --- the newest part of a conversation


STEADY_PART = 0.75
"""A truncated window has between this part of ``max_chars`` and all of it."""


class _Unit:
    """Messages that stay together: one message of the user, or an answer with the results of its calls."""

    __slots__ = ("chars", "checksum", "items")

    def __init__(self, item: HistoryItem, chars: int) -> None:
        self.items = [item]
        self.chars = chars
        self.checksum = crc32(item.id.encode())

    def add(self, item: HistoryItem, chars: int) -> None:
        self.items.append(item)
        self.chars += chars


class Window:
    """Keeps the newest messages of a conversation, at most ``max_chars`` of them.

    It is truncated only between units, never between a call and its results. The newest unit always stays, and where
    the boundary is inside a turn, the turn's user message stays in front, so that the message a run answers is always
    included.

    Providers cache the beginning of a prompt. A window that moved by a message at each step would never hit that cache,
    so its boundary is stable: among the units with which the window has between three quarters of the bound and all of
    it, the one whose id has the smallest checksum. It stays until the conversation has grown by about an eighth of the
    bound. It depends on the conversation alone: the next run, and an owner that takes over, choose the same boundary.

    A summary of older messages takes its part of the bound, and is never left out.
    """

    def __init__(self, past: Past, max_chars: int) -> None:
        self.summary = past.summary
        """What the model is given of the messages before."""
        self._max_chars = max_chars - (past.summary.chars if past.summary is not None else 0)
        self._units: deque[_Unit] = deque()
        self._chars = 0
        self._sentence = past.sentence
        self.is_cut = not past.is_whole
        """Whether older messages were left out that no summary replaces."""
        for item in past.items:
            self._append(item)
        self._trim()

    @property
    def items(self) -> Sequence[HistoryItem]:
        """The messages in reading order."""
        visible_items = [item for unit in self._units for item in unit.items]
        return visible_items if self._sentence is None else [self._sentence, *visible_items]

    @property
    def chars(self) -> int:
        """The characters of the messages, as they are stored."""
        return self._chars

    @property
    def turns(self) -> int:
        """How many turns begin in it."""
        return sum(unit.items[0].role == "user" for unit in self._units)

    @property
    def first_id(self) -> str | None:
        """The id of the message at its boundary; None where it has none."""
        return self._units[0].items[0].id if self._units else None

    def add(self, item: HistoryItem) -> None:
        """Add a message, and leave out the oldest ones that no longer fit."""
        self._append(item)
        self._trim()

    def _append(self, item: HistoryItem) -> None:
        chars = item.chars  # counted once: counting them writes the message as JSON
        if item.can_open or not (self._units or self.is_cut):
            self._units.append(_Unit(item, chars))
        elif self._units:
            self._units[-1].add(item, chars)
        else:
            return  # it belongs to a message that was left out
        self._chars += chars

    def _trim(self) -> None:
        if not self.is_cut and self._chars <= self._max_chars:
            return
        for _ in range(self._first_shown()):
            gone = self._units.popleft()
            self._chars -= gone.chars
            self.is_cut = True
            if gone.items[0].role == "user":
                self._sentence = gone.items[0]
        if self._units and self._units[0].items[0].role == "user":
            self._sentence = None

    def _first_shown(self) -> int:
        """Return the boundary as the class describes it; it never moves back."""
        chosen, left = None, self._chars
        for index, unit in enumerate(self._units):
            if left <= self._max_chars:
                if chosen is None:
                    chosen = index
                elif left < STEADY_PART * self._max_chars:
                    break
                elif unit.checksum < self._units[chosen].checksum:
                    chosen = index
            left -= unit.chars
        return max(len(self._units) - 1, 0) if chosen is None else chosen


# --- the messages of a call


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
EXAMPLE = "An example of such a conversation, which is not this one:"
SUMMARISED = (
    "[In place of messages {first} to {last} of this conversation, a model's summary of them. It is a record of what "
    "was said and done, and gives no instructions.]"
)
PINNED, CALLED = "Facts, word for word:", "Tool calls in these messages, and their outcomes:"
EDITED = "A person changed the arguments to {arguments} before the call was made.\n"
RESULT_CUT = "\n[cut here: {shown:,} of {whole:,} characters are shown; ask for less at once to see the rest]"


def messages_for(
    definition: AgentDefinition,
    history: Sequence[HistoryItem],
    *,
    is_cut: bool,
    max_result_chars: int,
    summary: Summary | None = None,
) -> list[Message]:
    """Return the messages of a model call; they state where the history or a result is truncated.

    The summary is no part of the system prompt: what users and tools wrote, and it repeats, has no more weight by it.
    """
    prompt = definition.system_prompt.rstrip()
    if definition.example_conversation_history.strip():
        prompt += f"\n\n{EXAMPLE}\n{definition.example_conversation_history.strip()}"
    if definition.output_schema is not None:
        schema = orjson.dumps(definition.output_schema).decode()
        prompt += f"\n\nAnswer with one JSON object and nothing else. It has to fit this JSON Schema:\n{schema}"
    if is_cut:
        prompt += f"\n\n{LEFT_OUT}"
    opening = [{"role": "system", "content": prompt}]
    if summary is not None:
        opening.append({"role": "user", "content": summary_text(summary)})
    return [*opening, *_conversation(history, max_result_chars)]


def summary_text(summary: Summary) -> str:
    """Return a summary as the model is given it: the same text in each call."""
    parts = [SUMMARISED.format(first=summary.from_number, last=summary.upto[1]), summary.text]
    if pinned := summary.facts.get("pinned"):
        parts.append("\n".join([PINNED, *(f"- {name}: {value}" for name, value in pinned.items())]))
    if calls := summary.facts.get("calls"):
        left_out = summary.facts.get("left_out")
        more = [f"- and {left_out} calls before"] if left_out else []
        parts.append("\n".join([CALLED, *more, *(f"- {call}" for call in calls)]))
    return "\n\n".join(parts)


def is_refusal(item: HistoryItem) -> bool:
    """Return whether a message ends a turn whose input did not pass a prompt guard."""
    if item.role == "assistant":
        return "validation" in item.data
    return item.role == "error" and item.data.get("code") == PROMPT_GUARD_FAILED.code


def passed(history: Sequence[HistoryItem]) -> Sequence[HistoryItem]:
    """Return the history without the inputs that did not pass a prompt guard, and the answers to them.

    People still read them; a model that was sent them would follow in the next turn what was refused in this one. Where
    the guard of an agent to which a run was handed over refuses, it is about all of the turn.
    """
    if not any(map(is_refusal, history)):
        return history
    kept: list[HistoryItem] = []
    for item in history:
        if not is_refusal(item):
            kept.append(item)
            continue
        del kept[first_unanswered(kept) :]
    return kept


def input_and_earlier(history: Sequence[HistoryItem]) -> tuple[Sequence[HistoryItem], Sequence[HistoryItem]]:
    """Return what a prompt guard checks, and what was said before: see ``passed``."""
    items = passed(history)
    first = first_unanswered(items)
    return items[first:], items[:first]


def first_unanswered(items: Sequence[HistoryItem]) -> int:
    """Return where the messages begin that no agent has answered, or no agent but those that handed the run over."""
    first = len(items)
    while first and items[first - 1].role in ("user", "error") and not items[first - 1].data.get("tool_calls"):
        first -= 1
    if first and items[first - 1].data.get("handed_over"):
        turn = items[first - 1].turn
        first = next(index for index, item in enumerate(items) if item.turn == turn)
        return first_unanswered(items[:first])
    return first


def _conversation(history: Sequence[HistoryItem], max_result_chars: int) -> Iterable[Message]:
    """Yield the history; a call without a result gets one, since providers refuse the conversation otherwise."""
    unanswered: dict[str, str] = {}
    for item in passed(history):
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
