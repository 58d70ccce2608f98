"""What a call says while it is under way: how far it is, and lines that it logs, few enough for its run's log."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from bus.payloads import Payload, ToolLogPayload, ToolProgressPayload
from config.redaction import redact_start
from config.text.visible import visible

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log lines, those of syslog, the least severe first."""
EVERY_S = 1.0
"""Seconds between two writes of one call; the first report is written at once."""
MAX_LINES = 20
"""Log lines of one write; of more, the newest are kept."""
MAX_WRITES = 300
"""Writes of one call; after that, only what is there at its end."""
MAX_TEXT = 1000
"""Characters of a message or a line."""
MAX_EXAMINED = 16_000
"""Characters in which secrets are looked for; of a longer text, only the start is kept until it is written."""
Save = Callable[[Sequence[Payload]], Awaitable[None]]


class CallReports:
    """The reports of one call. ``progress`` and ``log`` are safe for any thread, and never wait.

    Entered on the loop for as long as the call takes. What is reported afterwards is dropped.
    """

    def __init__(self, call_id: str, name: str, step_id: str, clean: Callable[[str], str], save: Save) -> None:
        """``clean`` returns a text as a run's log may keep it; ``save`` commits events to it and raises nothing."""
        self._ids: dict[str, Any] = {"call_id": call_id, "name": name, "step_id": step_id}
        self._clean, self._save = clean, save
        self._lock = threading.Lock()
        self._progress: tuple[float | None, float | None, str] | None = None
        self._lines: deque[tuple[str, str, str]] = deque()
        self._left_out = self._writes = 0
        self._written_s = -math.inf
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_woken = False

    def progress(self, done: float | None = None, total: float | None = None, message: str = "") -> None:
        """Report how far the call is; the run's log gets the newest report of each second."""
        with self._lock:
            self._progress = (_number(done), _number(total), _text(message))
        self._wake()

    def log(self, level: str, message: str, logger: str = "") -> None:
        """Report a log line; a level that is none of ``LEVELS`` is ``info``."""
        line = (level if level in LEVELS else "info", _text(message), _text(logger))
        with self._lock:
            if len(self._lines) >= MAX_LINES:
                self._lines.popleft()
                self._left_out += 1
            self._lines.append(line)
        self._wake()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._loop = None
        if self._writing is not None:
            self._writing.cancel()
        if kind is None or issubclass(kind, Exception):  # a cancelled call has no time for it
            await self._write()

    def _wake(self) -> None:
        with self._lock:
            if self._loop is None or self._is_woken:
                return
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._loop is not None and (self._writing is None or self._writing.done()):
            self._writing = self._loop.create_task(self._write_on())

    async def _write_on(self) -> None:
        """Write what is reported until nothing is left."""
        while self._has_some() and self._writes < MAX_WRITES:
            await asyncio.sleep(self._written_s + EVERY_S - time.monotonic())
            await self._write()

    def _has_some(self) -> bool:
        with self._lock:
            self._is_woken = bool(self._lines) or self._progress is not None or self._writes >= MAX_WRITES
            return self._is_woken

    async def _write(self) -> None:
        events = self._events()
        if not events:
            return
        self._writes += 1
        await self._save(events)
        self._written_s = time.monotonic()

    def _events(self) -> list[Payload]:
        """Take what was reported since the last time, as events."""
        with self._lock:
            (progress, lines, left_out) = (self._progress, list(self._lines), self._left_out)
            self._progress, self._left_out = None, 0
            self._lines.clear()
        events: list[Payload] = []
        for level, message, logger in lines:
            texts: dict[str, Any] = {"message": self._shown(message), "logger": self._shown(logger) or None}
            events.append(ToolLogPayload(level=level, left_out=left_out or None, **texts, **self._ids))
            left_out = 0
        if progress is not None:
            done, total, message = progress
            text = self._shown(message) or None
            events.append(ToolProgressPayload(done=done, total=total, message=text, **self._ids))
        return events

    def _shown(self, text: str) -> str:
        """Return the text as it may be kept; redacted before it is cut, so that no part of a secret is left."""
        return visible(self._clean(redact_start(text, MAX_TEXT)))


def _number(value: float | None) -> float | None:
    """Return a number that JSON has; None for others."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: str) -> str:
    """Return as much of a text as is examined when it is written, which few of the reports are."""
    return str(value)[:MAX_EXAMINED].encode("utf-8", "replace").decode()  # no database has half a surrogate pair
