"""The script of a scripted model: a list of turns, and a record of the calls."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from agents.models.streams.chunk import Usage

if TYPE_CHECKING:
    from agents.models.call import ModelCall

_numbers = itertools.count(1)
MODELS: WeakValueDictionary[str, ScriptedModel] = WeakValueDictionary()
"""The models of this process, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call the model makes."""

    name: str
    arguments: Mapping[str, Any] | str = "{}"
    """An object, or any text where broken JSON is wanted."""
    id: str | None = None
    """None: the next free one."""

    @property
    def text(self) -> str:
        """The arguments as the model writes them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One answer of the model."""

    text: Sequence[str] | str = ()
    """Pieces of the answer, one event each; a plain string is cut behind each blank."""
    reasoning: Sequence[str] | str = ()
    """Pieces of thinking, before the answer."""
    calls: Sequence[Call] = ()
    usage: Usage | None = None
    """None counts ten tokens in, and a token a piece out."""
    finish_reason: str | None = None
    """None: ``tool_calls`` if there are any, else ``stop``."""
    error: Exception | None = None
    """Raised instead of the next piece, after ``error_after`` of them: ``ModelFailed("busy")``."""
    error_after: int = 0
    stall_after: int | None = None
    """Wait after so many pieces, until ``ScriptedModel.resume()``."""


class ScriptedModel:
    """A model called ``name`` whose answers are given beforehand; every member may be used from any thread."""

    def __init__(self) -> None:
        self.name = f"scripted/{next(_numbers)}"
        self.requests: list[ModelCall] = []
        """The calls of the model, in order."""
        self.respond: Callable[[ModelCall], Turn] | None = None
        """Makes a turn from a call; used instead of the script."""
        self.closed_early = threading.Event()
        """Set when an answer was closed before its end."""
        self._turns: deque[Turn] = deque()
        self._changed = threading.Condition()
        self._stalled: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        MODELS[self.name] = self

    def script(self, *turns: Turn) -> None:
        """Answer the next calls with ``turns``, one each."""
        self._turns.extend(turns)

    def take(self, call: ModelCall) -> Turn:
        """Record a call and return the answer to it."""
        with self._changed:
            self.requests.append(call)
            self._changed.notify_all()
        if self.respond is not None:
            return self.respond(call)
        return self._turns.popleft() if self._turns else Turn(text="The script has no further turn.")

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> bool:
        """Return whether ``count`` calls have come, waiting for them."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s)

    async def stall(self) -> None:
        """Wait until ``resume()``."""
        resumed = asyncio.Event()
        self._stalled.append((asyncio.get_running_loop(), resumed))
        await resumed.wait()

    def resume(self) -> None:
        """Resume every stalled answer."""
        while self._stalled:
            loop, resumed = self._stalled.pop()
            loop.call_soon_threadsafe(resumed.set)


def words(text: Sequence[str] | str) -> list[str]:
    """Return the pieces of ``text``: as they are, or a string cut behind each blank."""
    if not isinstance(text, str):
        return list(text)
    return [part for part in text.replace(" ", " \0").split("\0") if part]
