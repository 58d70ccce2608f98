"""Observers of the bench that tail the log: they count, wait as for another system, note how late they are, or fail."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any, ClassVar

from observers.base import AgentObserver, Tailing

FILE = "BENCH_TAILED"
"""The variable with the file in which observers write."""


class Sink(AgentObserver):
    """Appends lines to the file at each flush."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def flush(self) -> None:
        if self.lines:
            descriptor = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, "".join(f"{line}\n" for line in self.lines).encode())
            os.close(descriptor)
            self.lines.clear()


class Noting(Sink):
    """Notes the run and the number of each event."""

    name: ClassVar[str] = "noting"

    def on_response(self, agent: Any, payload: Any, context: Any) -> None:
        self.lines.append(f"{context.run_id} {payload.seq}")


class Late(Sink):
    """Notes how long after it was numbered each event came, in milliseconds."""

    name: ClassVar[str] = "late"

    def on_response(self, agent: Any, payload: Any, context: Any) -> None:
        self.lines.append(f"{(time.time() - datetime.fromisoformat(payload.at).timestamp()) * 1000:.1f}")


class Waiting(AgentObserver):
    """Waits for each event as for an answer of another system: 2 ms."""

    name: ClassVar[str] = "waiting"

    def on_response(self, agent: Any, payload: Any, context: Any) -> None:
        time.sleep(0.002)


class Bad(AgentObserver):
    """Raises for one event, takes long for the next, and keeps all of them."""

    name: ClassVar[str] = "bad"
    tailing: ClassVar[Tailing] = Tailing(timeout_s=0.5, threads=4)

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def on_response(self, agent: Any, payload: Any, context: Any) -> None:
        self.kept.append((agent, payload, context, "x" * 10_000))
        if payload.seq % 3 == 0:
            raise RuntimeError("the sink refuses")
        time.sleep(10 if payload.seq % 7 == 0 else 0.02)
