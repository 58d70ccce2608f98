"""Owners that are lost, for tests of workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agents.testing import AgentKit
from bus.journal import Journal
from bus.journal.log.commit import Commit
from bus.journal.log.writer import RunWriter
from bus.journal.unowned.transitions import lock_run, requeue
from bus.payloads import Payload


class Losses:
    """Takes the owner of a run away right behind chosen commits, as ``kill -9`` does."""

    def __init__(self) -> None:
        self._commit = RunWriter.commit
        self._journal: Journal | None = None
        self.behind: frozenset[int] = frozenset()
        """The numbers of these commits, counted over all owners of all runs."""
        self.count = 0

    def begin(self, kit: AgentKit, behind: frozenset[int]) -> None:
        """Count the commits of this kit's runs from now on."""
        self._journal, self.behind, self.count = kit.runner.journal, behind, 0

    async def commit(self, writer: RunWriter, change: Commit, then: Callable[[], object]) -> list[Payload]:
        numbered = await self._commit(writer, change, then)
        self.count += 1
        if self._journal is not None and self.count - 1 in self.behind and not writer.is_closed:
            await asyncio.shield(self._journal.loop.write(self._requeue, writer.lease.run_id))
            writer.lost_ownership("was killed by the test")
        return numbered

    def _requeue(self, run_id: str) -> None:
        assert self._journal is not None
        with self._journal.database.write() as connection:
            row = lock_run(connection, run_id)
            written = requeue(connection, row, None) if row is not None and row.status == "running" else None
        if written is not None:
            self._journal.live.publish(written)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Losses:
    """What takes owners of a kit's runs away, once a test has called ``begin``."""
    losses = Losses()

    async def commit(writer: RunWriter, change: Commit, then: Callable[[], object] = lambda: None) -> list[Payload]:
        return await losses.commit(writer, change, then)

    monkeypatch.setattr(RunWriter, "commit", commit)
    return losses
