"""The commits of one owner of a workflow: what several branches commit at the same moment is one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from agents.context import RunContext
from bus.journal.owner import Commit


class Ledger:
    """Collects changes of the run in order; to be used on the loop's thread.

    The result of a node that only computes is added and need not be waited for: it is committed with the next start of
    a call, and would be computed again without harm. Before a call, and after it, the caller waits.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._parts: list[Commit] = []
        self._added = self._committed = 0
        self._committing: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        """Why the last commit has failed: a fault of the journal, and of no node."""

    def add(self, change: Commit) -> None:
        """Add a change to the next commit."""
        self._parts.append(change)
        self._added += 1

    async def flush(self) -> None:
        """Return when everything that was added is committed.

        Raises:
            StaleOwner: another worker owns the run now.
        """
        mine = self._added
        while self._committed < mine:
            if self._committing is None or self._committing.done():
                self._committing = asyncio.get_running_loop().create_task(self._commit())
                self._committing.add_done_callback(_note_error)
            await asyncio.shield(self._committing)

    async def _commit(self) -> None:
        parts, upto = self._parts, self._added
        change = self.take()
        try:
            await self._context.save(change)
        except Exception as error:
            self.error = error
            self._parts = [*parts, *self._parts]  # for the commit that ends the run
            raise
        self._committed = upto

    def take(self) -> Commit:
        """Return what was added and is not committed, for a commit of the caller's."""
        parts, self._parts = self._parts, []
        return joined(parts)

    async def settle(self) -> None:
        """Return when the commit under way has succeeded or failed."""
        if self._committing is not None:
            await asyncio.gather(self._committing, return_exceptions=True)


def _note_error(commit: asyncio.Task[None]) -> None:
    """Note the error of a commit whose callers were cancelled; the others get it too."""
    if not commit.cancelled():
        commit.exception()


def joined(parts: Iterable[Commit]) -> Commit:
    """Return several changes as one, in their order; none of them releases or ends the run."""
    changes: Sequence[Commit] = list(parts)
    if len(changes) == 1:
        return changes[0]
    return Commit(
        events=[event for part in changes for event in part.events],
        started=[step for part in changes for step in part.started],
        ended=[step for part in changes for step in part.ended],
        recorded=[pair for part in changes for pair in part.recorded],
        planned=[step_id for part in changes for step_id in part.planned],
        unknown=[step_id for part in changes for step_id in part.unknown],
        decided={step_id: decision for part in changes for step_id, decision in part.decided.items()},
        attempts={step_id: number for part in changes for step_id, number in part.attempts.items()},
        waiting={step_id: wait for part in changes for step_id, wait in part.waiting.items()},
        restarted=[step_id for part in changes for step_id in part.restarted],
        answers_used=[approval_id for part in changes for approval_id in part.answers_used],
        sticky=[approval_id for part in changes for approval_id in part.sticky],
        labels=frozenset().union(*(part.labels for part in changes)),
    )
