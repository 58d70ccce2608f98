"""The script of a scripted model: a list of turns, and a record of the calls."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from agents.models.errors import MODEL_REFUSED, ModelFailed, is_temporary
from agents.models.failures import failure_of
from agents.models.streams.chunk import Chunk, ToolDelta, Usage
from agents.models.streams.openai import OpenAIWire
from agents.models.streams.reader import ByteReader

if TYPE_CHECKING:
    from agents.models.call import ModelCall
    from agents.models.streams.reader import ChunkReader

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
        """Answer the next calls with ``turns``, one each; calls for summaries of long threads take none."""
        self._turns.extend(turns)

    def take(self, call: ModelCall) -> Turn:
        """Record a call and return the answer to it.

        A summary is asked for beside the runs, at any time, so a script has none and the conversation is truncated.
        """
        if call.is_summary and self.respond is None:
            return Turn(error=MODEL_REFUSED("A script has no summaries; set `respond`."))
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
        with self._changed:
            self._stalled.append((asyncio.get_running_loop(), resumed))
            self._changed.notify_all()
        await resumed.wait()

    def resume(self, timeout_s: float = 10.0) -> None:
        """Resume every stalled answer; wait for one if there is none, since the run may not have come so far."""
        with self._changed:
            self._changed.wait_for(lambda: self._stalled, timeout_s)
        while self._stalled:
            loop, resumed = self._stalled.pop()
            loop.call_soon_threadsafe(resumed.set)


def words(text: Sequence[str] | str) -> list[str]:
    """Return the pieces of ``text``: as they are, or a string cut behind each blank."""
    if not isinstance(text, str):
        return list(text)
    return [part for part in text.replace(" ", " \0").split("\0") if part]


# --- the stream of an answer that is known beforehand, also of the demo model


PIECE_CHARS = 8
"""Characters of a call's arguments in one chunk."""
_call_numbers = count(1)


class TurnReader:
    """Reads one turn, a chunk at a time."""

    def __init__(self, turn: Turn) -> None:
        pieces = list(_pieces_of(turn))
        reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
        usage = turn.usage or Usage(input_tokens=10, output_tokens=len(pieces))
        self.turn = turn
        self.chunks = [*pieces, Chunk(finish_reason=reason, usage=usage)]
        self.sent = 0
        self.finished = False
        self.done = False

    async def read(self) -> list[Chunk] | None:
        if self.turn.error is not None and self.sent == self.turn.error_after:
            raise self.turn.error
        chunk = self.chunks[self.sent] if self.sent < len(self.chunks) else None
        await self.pause(chunk)
        if chunk is None:
            return None
        self.sent += 1
        self.finished = self.done = chunk.finish_reason is not None
        return [chunk]

    async def pause(self, chunk: Chunk | None) -> None:
        """Let time pass before a chunk, or before the end; other tasks run meanwhile, as with a socket."""
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


class ScriptedReader(TurnReader):
    """Reads what a scripted model of this process answers."""

    def __init__(self, call: ModelCall) -> None:
        model = MODELS.get(call.model)
        if model is None:
            raise MODEL_REFUSED(
                f"there is no model '{call.model}' in this process: a scripted model is made by a test "
                "(docs/testing.md)."
            )
        self._model = model
        super().__init__(model.take(call))
        if self.turn.error is not None and not self.turn.error_after:
            raise self.turn.error

    async def pause(self, chunk: Chunk | None) -> None:
        if self.sent == self.turn.stall_after:
            await self._model.stall()
        await super().pause(chunk)

    async def aclose(self) -> None:
        if not self.finished:
            self._model.closed_early.set()


async def open_script(call: ModelCall) -> ChunkReader:
    """Return the answer of this process's script, or with an ``api_base``, of the script served there."""
    if call.api_base is None:
        return ScriptedReader(call)

    return await open_served(call)


def _pieces_of(turn: Turn) -> Iterator[Chunk]:
    for piece in words(turn.reasoning):
        yield Chunk(reasoning=piece)
    for piece in words(turn.text):
        yield Chunk(text=piece)
    for index, call in enumerate(turn.calls):
        call_id = call.id or f"call_{next(_call_numbers)}"
        yield Chunk(tools=[ToolDelta(index=index, id=call_id, name=call.name)])
        text = call.text  # encoded anew each time that it is asked for
        for start in range(0, len(text), PIECE_CHARS):
            yield Chunk(tools=[ToolDelta(index=index, arguments=text[start : start + PIECE_CHARS])])


# --- a script in another process


_LOCAL = ("127.0.0.1", "localhost", "::1")


async def open_served(call: ModelCall) -> ByteReader:
    """Return the answer of the server at the call's ``api_base``."""
    import httpx

    url = httpx.URL(f"{call.api_base}/chat/completions")
    if url.host not in _LOCAL:
        raise MODEL_REFUSED(f"'{call.model}' has its script on this machine alone; address it as 127.0.0.1.")
    body = {
        "model": call.model.partition("/")[2],
        "messages": list(call.messages),
        "stream": True,
        "tools": list(call.tools) if call.tools else None,
        "tool_choice": call.tool_choice if call.tools else None,
        "response_format": call.response_format,
    }
    sent = {name: value for name, value in body.items() if value is not None} | dict(call.params)
    async with AsyncExitStack() as until_opened:
        # the stream's own timer limits it
        client = httpx.AsyncClient(timeout=None, trust_env=False, verify=False)
        until_opened.push_async_callback(client.aclose)
        try:
            response = await client.send(client.build_request("POST", url, json=sent), stream=True)
        except httpx.HTTPError as error:
            raise failure_of(error, call) from error
        if response.status_code != 200:
            kind = ModelFailed if is_temporary(response.status_code) else MODEL_REFUSED
            text = f"the server of '{call.model}' answered with HTTP {response.status_code}."
            raise kind(text, model=call.model, provider_status=response.status_code)
        until_opened.pop_all()
    return ByteReader(response, OpenAIWire(), client, call)
