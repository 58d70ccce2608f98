"""What an owner does about its run, whatever the run is: what the claim begins, and the execution runs and ends."""

from __future__ import annotations

from typing import Protocol

from bus.journal.owner import Ending, FirstCommit


class RunWork(Protocol):
    """What an owner does about its run: an agent's turn, or one call of a tool."""

    def begin(self) -> FirstCommit:
        """Return what has to be committed before ``run``, with the claim."""

    async def run(self) -> None:
        """Work until the run has ended or is released; an error ends it by ``finish``."""

    async def release(self) -> None:
        """Give the run back in the middle of its work, for the next owner to resume."""

    async def finish(self, ending: Ending) -> None:
        """End the run early; every open step and call gets a result."""
