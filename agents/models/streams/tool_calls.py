"""Assembles tool calls from their streamed pieces."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agents.models.errors import ModelFailed
from agents.models.streams.chunk import ToolDelta
from config.ids import new_id
from config.redaction import redact
from config.text.stored_texts import stored_called_name


@dataclass(slots=True)
class ToolCall:
    """One call by the model; its arguments are the model's text, not validated yet."""

    id: str
    """Unique within the answer; the provider's own where it sent a usable one."""
    name: str
    arguments_text: str


@dataclass(slots=True)
class _Building:
    given_id: str | None = None
    id: str = ""
    """Given once the name is complete: arguments followed it, or another call."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    def whole(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments_text="".join(self.pieces))


MAX_CALLS = 1000
"""Most calls one answer may make."""
_MAX_NAME_CHARS = 256
"""Characters of a name that are kept; providers take 64."""
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:+/=|-]{1,32768}")
"""An id as providers make them: `call_…`, `toolu_…`, `functions.name:0`, and LiteLLM's with a signature in base64
behind it. Any other is text that a model or a server chose, and would go into events and logs."""


class CallCollector:
    """Collects pieces by index, in the order the calls began."""

    def __init__(self, make_id: Callable[[], str] = lambda: new_id("call")) -> None:
        self._make_id = make_id
        self._by_index: dict[int, _Building] = {}
        self._calls: list[_Building] = []
        self._ids: set[str] = set()
        self._fresh: list[_Building] = []

    def __len__(self) -> int:
        return len(self._calls)

    def take(self, delta: ToolDelta) -> int:
        """Add a piece and return how many characters it had.

        Raises:
            ModelFailed: the answer makes more calls than it may.
        """
        delta = _without_nul(delta)
        call = self._by_index.get(delta.index)
        if call is None or (delta.id and delta.name and call.given_id and delta.id != call.given_id):
            call = self._begin(delta.index)  # also under a used index: some servers send 0 for all calls
        if delta.id and call.given_id is None and not call.id:
            call.given_id = delta.id
        if delta.name and not call.id and delta.name != call.name and len(call.name) < _MAX_NAME_CHARS:
            call.name = (call.name + delta.name)[:_MAX_NAME_CHARS]
        if delta.arguments:
            call.pieces.append(delta.arguments)
            self._name(call)
        return len(delta.arguments) + len(delta.name or "") + len(delta.id or "") + 1

    def newly_named(self) -> list[ToolCall]:
        """Return the calls whose names became complete since the last call; their arguments may be incomplete."""
        if not self._fresh:
            return []
        fresh, self._fresh = self._fresh, []
        return [call.whole() for call in fresh]

    def finish(self) -> None:
        """Mark every name as complete: the stream has ended."""
        for call in self._calls:
            self._name(call)

    def calls(self) -> list[ToolCall]:
        """Return the calls with the pieces received so far."""
        return [call.whole() for call in self._calls]

    def _begin(self, index: int) -> _Building:
        if len(self._calls) >= MAX_CALLS:
            raise ModelFailed(f"the model called more than {MAX_CALLS} tools in one answer; it was not read further.")
        if self._calls:
            self._name(self._calls[-1])  # those before it were named when it began
        call = self._by_index[index] = _Building()
        self._calls.append(call)
        return call

    def _name(self, call: _Building) -> None:
        if call.id or not call.name:
            return
        call.name = stored_called_name(call.name)
        given_id = call.given_id
        call.id = given_id if given_id and given_id not in self._ids and _is_usable(given_id) else self._make_id()
        self._ids.add(call.id)
        self._fresh.append(call)


def _is_usable(given_id: str) -> bool:
    """Return whether a provider's id may be recorded as it is: a plain word without a secret."""
    return _PLAIN_ID.fullmatch(given_id) is not None and redact(given_id) == given_id


def _without_nul(delta: ToolDelta) -> ToolDelta:
    """Return the piece with U+FFFD for each NUL of its name, which Postgres cannot keep; such an id is not kept."""
    if "\0" not in (delta.name or ""):
        return delta
    return replace(delta, name=(delta.name or "").replace("\0", "\ufffd"))
