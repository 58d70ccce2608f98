"""An observer of journeys: notes each event in a file, whose name a variable has."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from observers.base import AgentObserver

FILE = "OBSERVED_FILE"


class Noting(AgentObserver):
    """Appends the run and the number of each event, a batch at a time and as one write."""

    name: ClassVar[str] = "noting"

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_response(self, agent: Any, payload: Any, context: Any) -> None:
        self.lines.append(f"{context.run_id} {payload.seq}\n")

    def flush(self) -> None:
        if self.lines:
            descriptor = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, "".join(self.lines).encode())
            os.close(descriptor)
            self.lines.clear()
