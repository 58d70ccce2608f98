"""A viewer of a run that drops and comes back with the last number it saw, and pieces the text together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import orjson

from bus.journal.accept import Accepted
from bus.journal.hotlog import HotLog
from bus.journal.leases import Lease
from bus.journal.line import Line, withdrawn_ranges
from bus.journal.reader import Reader
from tests.bus.world import World

Texts = dict[tuple[str, str], str]
"""The text of each message by its id and kind (response or reasoning)."""


class Viewer:
    """Everything is called on the loop."""

    def __init__(self, world: World, accepted: Accepted | Lease, hot_log: HotLog | None = None) -> None:
        self.run_id = accepted.run_id
        self._world = world
        self._accepted = accepted
        self._hot_log = hot_log or world.hot_log
        self.got: list[Line] = []
        self.task: asyncio.Task[None] | None = None

    @property
    def has_end(self) -> bool:
        return bool(self.got) and self.got[-1].is_end

    def connect(self) -> None:
        if self.task is None and not self.has_end:
            self.task = asyncio.create_task(self._follow())

    async def drop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            self.task = None

    async def _follow(self) -> None:
        world, accepted = self._world, self._accepted
        cursor = self.got[-1].seq if self.got else 0
        reader = Reader(accepted.run_id, accepted.thread_id, cursor, world.database, self._hot_log, world.loop)
        async for batch in reader.batches():
            self.got += batch

    def texts(self) -> Texts:
        """Return what this viewer shows: the pieces it was not told to drop."""
        return pieced(self.got)


def is_piece(line: Line) -> bool:
    """Return whether this is a piece of a message, which may be withdrawn."""
    return line.type in ("response", "reasoning") or (line.type == "tool" and b'"arguments":' not in line.data)


def committed(lines: Iterable[Line]) -> list[Line]:
    """Return the events that are nobody's to withdraw."""
    return [line for line in lines if not is_piece(line)]


def declared(lines: Iterable[Line]) -> set[int]:
    """Return every number that was withdrawn."""
    return {n for line in lines for first, last in withdrawn_ranges(line) for n in range(first, last + 1)}


def pieced(lines: Iterable[Line]) -> Texts:
    """Return the text that the pieces which were not withdrawn add up to."""
    lines = list(lines)
    gone, texts = declared(lines), Texts()
    for line in lines:
        if line.type in ("response", "reasoning") and line.seq not in gone:
            event = orjson.loads(line.data)
            place = event["message_id"], line.type
            texts[place] = texts.get(place, "") + event["content"]
    return texts


def final(lines: Iterable[Line]) -> Texts:
    """Return the text of the messages that became whole."""
    texts = Texts()
    for line in lines:
        if line.type == "message":
            event = orjson.loads(line.data)
            for kind, field in (("response", "content"), ("reasoning", "reasoning")):
                if event.get(field):
                    texts[event["message_id"], kind] = event[field]
    return texts
