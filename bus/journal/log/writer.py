"""The one ordered writer of a run: it numbers every event, commits all but deltas, and then notifies the observers.

Its rules (docs/journal.md): no event leaves before the commit of its predecessor succeeded; a commit that fails gives
its numbers back; a committed event comes after every earlier delta; the ``message`` makes text final, and the
message's deltas are sealed in the same commit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, TypeVar

from sqlalchemy import Connection

from bus.journal.errors import StaleOwner
from bus.journal.log.audited import audit_calls, audit_definition
from bus.journal.log.commit import Commit, record
from bus.journal.log.events import UnfinishedDeltas
from bus.journal.log.family import NO_FAMILY, Family
from bus.journal.log.group_commit import GroupCommit, Last
from bus.journal.states import owned
from bus.journal.states.lease import Lease
from bus.journal.states.owned import RESERVE, Owned
from bus.journal.states.release import release
from bus.loop import ProcessLoop
from bus.payloads import EndPayload, MessagePayload, Payload
from bus.sealing import Original
from config.clock import epoch_ms, stamp
from config.errors import CallboardError, Retryable
from config.failpoints import failpoint

log = logging.getLogger(__name__)

T = TypeVar("T")
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between two tries to write; the last pause repeats."""
WRITABLE_POLL_S = 0.1
"""Seconds between two checks whether heartbeats succeed again."""
Notify = Callable[[Payload], None]


class RunWriter:
    """Writes all events, steps and messages of one owner of a run; to be used on the loop's thread."""

    def __init__(
        self,
        lease: Lease,
        commits: GroupCommit,
        loop: ProcessLoop,
        notify: Notify,
        *,
        on_wake: Callable[[str], None],
        on_left: Callable[[str, int], None],
        family: Family = NO_FAMILY,
        is_audited: bool = False,
    ) -> None:
        """``on_wake`` gets the run that a commit made claimable; ``on_left`` the run's id and its last number, after
        its end or release, of which ``family`` is notified; ``is_audited``: its calls are in the audit log."""
        self._is_audited, self._family, self.lease = is_audited, family, lease
        self._noted: Any = None  # what the last commit has for the run's parent and children
        self._group, self._loop, self._notify = commits, loop, notify
        self._on_wake, self._on_left = on_wake, on_left
        self.claimed_s = time.monotonic()
        """When the run was claimed (monotonic): a writer is made in that transaction."""
        self._next, self._commits = lease.next_seq, lease.commits
        self._may_be_written = False  # whether a commit was tried whose reply may have been lost
        self._is_repeated = False  # whether the last try found that an earlier one was committed
        self._top = lease.reserved_to
        self._deltas = UnfinishedDeltas()
        self._blocked: list[tuple[type[Payload], dict[str, str]]] = []
        self.originals: list[Original] = []
        """What guardrails removed something from since the last commit; the next one seals it."""
        self._busy = asyncio.Lock()
        self._committing = False
        self._extending: asyncio.Task[None] | None = None
        self._sealing: asyncio.Task[None] | None = None
        self.is_stale = False
        """Whether this writer must not write any more: another process owns the run, or may own it."""
        self.is_closed = False
        """Whether the run ended or was released: nothing is written any more."""
        self.on_lost: Callable[[], object] = lambda: None
        """Called once when the writer becomes stale, so that the work stops too."""
        self.is_silent: Callable[[], bool] = lambda: False
        """Whether this process may not write now: no heartbeat succeeded for too long; set by ``LeaseManager``."""

    # --- the hot log's view (LogSource)

    @property
    def tenant(self) -> str:
        return self.lease.tenant

    @property
    def sealed_to(self) -> int:
        """Every number up to here is in SQL."""
        return (self._deltas.first_held or self._next) - 1

    @property
    def is_committing(self) -> bool:
        """Whether a commit is in flight; it will find out whether this process still owns the run."""
        return self._committing

    def seal_soon(self) -> None:
        """Seal the deltas in memory now, without waiting for their message."""
        if self._deltas.held and not self.is_closed and (self._sealing is None or self._sealing.done()):
            self._sealing = asyncio.get_running_loop().create_task(self._seal_all())

    def lost_ownership(self, why: str = "was taken over by another owner") -> None:
        """Stop writing at once and cancel the work; ``why`` completes the log line "run ..."."""
        if not self.is_over:
            extra = {"trace_id": self.lease.trace_id}  # the beat's thread reports it
            log.warning("run %s run_id=%s fence=%s", why, self.lease.run_id, self.lease.fence, extra=extra)
            self.is_stale = True
            self.on_lost()

    @property
    def is_over(self) -> bool:
        """Whether this writer writes nothing any more."""
        return self.is_stale or self.is_closed

    # --- deltas

    def delta(self, kind: type[Payload], fields: dict[str, str]) -> None:
        """Number a delta and deliver it; ``fields`` are those of its kind, ``message_id`` among them.

        Raises:
            StaleOwner: another process owns the run, or it was released.
        """
        if self.is_stale or self.is_closed:
            raise StaleOwner(self.lease.run_id, self.lease.fence)
        if self._committing or self._blocked or self._next > self._top or self.is_silent():
            self._blocked.append((kind, fields))
            if not self._committing:
                self._extend()
            return
        now = epoch_ms()
        payload = kind(seq=self._next, at=stamp(now), **fields)  # type: ignore[arg-type]  # each kind's own fields
        self._next += 1
        self._deltas.held.setdefault(fields["message_id"], []).append((payload, now))
        if self._top - self._next < RESERVE // 2:
            self._extend()
        self._notify(payload)

    def _release_blocked(self) -> None:
        waiting, self._blocked = self._blocked, []
        for kind, fields in waiting:
            if self.is_over:
                return
            self.delta(kind, fields)

    @property
    def is_full(self) -> bool:
        """Whether deltas wait for numbers; a reader of a fast stream pauses with ``room()``."""
        return bool(self._blocked)

    async def room(self) -> None:
        """Return when more numbers are reserved.

        Raises:
            StaleOwner: another process owns the run.
        """
        self._extend()
        assert self._extending is not None
        await asyncio.shield(self._extending)  # others wait for it too
        if self.is_stale:
            raise StaleOwner(self.lease.run_id, self.lease.fence)

    def _extend(self) -> None:
        if self._extending is None or self._extending.done():
            self._extending = asyncio.get_running_loop().create_task(self._reserve_more())

    async def _reserve_more(self) -> None:
        """Reserve numbers until no delta waits for one; deltas that wait for a commit are numbered after it."""
        lease, is_short = self.lease, True
        while is_short and not self.is_closed:
            upto = max(self._top, self._next) + RESERVE
            if not await self._patiently(owned.reserve, lease.run_id, lease.fence, upto):
                self.lost_ownership()
                return
            self._top = upto
            if not self._committing:
                self._release_blocked()
            is_short = bool(self._blocked) and not self._committing

    # --- commits

    def number(self, events: Sequence[Payload]) -> list[Payload]:
        """Return events with the numbers after those of the claim, for the claim's transaction to commit."""
        at = stamp()
        numbered = [payload.numbered(self._next + i, at) for i, payload in enumerate(events)]
        self._next += len(numbered)
        return numbered

    async def commit(self, change: Commit, then: Callable[[], object] = lambda: None) -> list[Payload]:
        """Commit the change, deliver its events to the observers, and return them with their numbers.

        Cancelling the caller does not interrupt the commit: it is finished all the same, and the next commit comes
        after it. ``then`` is called once the change is committed, also where the caller was cancelled.

        Raises:
            StaleOwner: another process owns the run; nothing was written.
        """
        return await asyncio.shield(self._commit(change, then=then))

    async def settle(self) -> None:
        """Return when the commits that were begun have succeeded or failed."""
        async with self._busy:
            pass

    async def withdraw(self, message_id: str, *events: Payload, change: Commit | None = None) -> None:
        """Withdraw every delta of a message that will not be finished; commit ``events`` and ``change`` with that."""
        self._blocked = [(kind, fields) for kind, fields in self._blocked if fields["message_id"] != message_id]
        change = change or Commit()
        change = replace(change, events=[*events, *change.events])
        await asyncio.shield(self._commit(change, [message_id]))

    async def _commit(
        self, change: Commit, gone: Sequence[str] = (), then: Callable[[], object] = lambda: None
    ) -> list[Payload]:
        """Commit ``change`` after the withdrawal of the messages in ``gone``.

        New deltas are held back meanwhile; earlier ones get their numbers first.
        """
        async with self._busy:
            while self._blocked and not self.is_over:
                await self.room()
            if self.is_over:
                raise StaleOwner(self.lease.run_id, self.lease.fence)
            self._committing = True
            try:
                numbered = await self._number_and_save(change, gone)
                then()
                return numbered
            finally:
                self._committing = False
                self._release_blocked()

    async def _number_and_save(self, change: Commit, gone: Sequence[str]) -> list[Payload]:
        final = [p.message_id for p in change.events if isinstance(p, MessagePayload)]
        is_last = change.release is not None or any(isinstance(p, EndPayload) for p in change.events)
        if is_last:  # a message that is not finished now will never be
            gone = self._deltas.messages_beside(final)
        events = [*self._deltas.withdrawal(gone), *change.events]
        if gone and not events and not is_last:
            return []  # none of the messages' deltas was numbered
        if self._next + len(events) - 1 > self._top:
            await self.room()
        if is_last and self._extending is not None and not self._extending.done():
            await asyncio.wait([self._extending])  # after the last commit it would be refused like a stale owner's
        originals = list(self.originals)
        if originals:
            change = replace(change, originals=[*change.originals, *originals])
        at = stamp()
        numbered = [payload.numbered(self._next + i, at) for i, payload in enumerate(events)]
        woken = await self._save(change, numbered, self._blocks(final))
        self._next += len(numbered)
        del self.originals[: len(originals)]  # those of a change that was refused are sealed with the next one
        self._deltas.forget([*final, *gone])
        self.is_closed = is_last
        for payload in numbered:
            self._notify(payload)
        if is_last:
            self._on_left(self.lease.run_id, self._next - 1)
            self._family.publish(self._noted)
        for run_id in (woken, *(child.run_id for child in change.children)):
            if run_id is not None:
                self._on_wake(run_id)
        return numbered

    def _blocks(self, message_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return the rows that seal what is held of these messages."""
        return self._deltas.blocks(message_ids, self.lease.run_id, self.lease.fence)

    async def _save(self, change: Commit, numbered: Sequence[Payload], blocks: Sequence[dict[str, Any]]) -> str | None:
        """Write this change exactly once, however often it is tried."""
        self._may_be_written = False  # the flag of an earlier change that was given up
        # A release is urgent: other workers may take the run, and this process may be about to end.
        woken = await self._patiently(
            self._write,
            change,
            numbered,
            blocks,
            then=lambda: failpoint("commit"),
            last=self._audit_of(change),
            is_urgent=change.release is not None,
        )
        self._commits += 1
        return woken

    def _audit_of(self, change: Commit) -> Last | None:
        """Return what records the calls that a change begins; None where it begins none, or none is recorded."""
        begun = [step.id for step in (*change.started, *(step for step, _ in change.recorded))] + [*change.models]
        handover = change.release.handover if change.release is not None else None
        if handover is None and not (self._is_audited and (begun or change.children)):
            return None

        def audit(connection: Connection) -> None:
            if self._is_repeated:
                return
            if self._is_audited and begun:
                audit_calls(connection, self.lease, begun)
            for child in change.children if self._is_audited else ():
                child.audit(connection)
            if handover is not None:
                audit_definition(connection, self.lease, handover)

        return audit

    async def _patiently(
        self,
        function: Callable[..., T],
        *args: Any,
        then: Callable[[], None] = lambda: None,
        last: Last | None = None,
        is_urgent: bool = False,
    ) -> T:
        """Write, and retry while the database is locked, full or unreachable and this process still owns the run.

        A reply that was lost with the connection does no harm: the retry finds that the first try was committed.
        """
        pauses_s = chain(PAUSES_S, repeat(PAUSES_S[-1]))
        while True:
            await self.wait_until_writable()
            try:
                work = self._group.submit(
                    self.lease.run_id,
                    lambda connection: function(connection, *args),
                    then=then,
                    last=last,
                    is_urgent=is_urgent,
                )
                return await asyncio.wrap_future(work)
            except Retryable as error:
                if self.is_stale:
                    raise StaleOwner(self.lease.run_id, self.lease.fence) from None
                log.info("could not write yet run_id=%s: %s", self.lease.run_id, error)
                await asyncio.sleep(next(pauses_s))

    async def wait_until_writable(self) -> None:
        """Return when this process may write: at once, unless its heartbeats fail.

        Raises:
            StaleOwner: another process took the run over meanwhile.
        """
        while self.is_silent():
            if self.is_stale:
                raise StaleOwner(self.lease.run_id, self.lease.fence)
            await asyncio.sleep(WRITABLE_POLL_S)

    def _write(
        self, connection: Connection, change: Commit, numbered: Sequence[Payload], blocks: Sequence[dict[str, Any]]
    ) -> str | None:
        """Write one change, on a writer thread; return the run to wake up: this one, the thread's next one, or None.

        Raises:
            StaleOwner: another process owns the run.
        """
        self._is_repeated = False
        lease, end = self.lease, next((p for p in numbered if isinstance(p, EndPayload)), None)
        ours: Owned = {"id_": lease.run_id, "fence_": lease.fence, "commits_": self._commits}
        work_ms, left_as = lease.work_ms_of_all(self.claimed_s), None
        if change.release is not None:  # each locks the run's row
            left_as = release(connection, ours, change.release, self._next + len(numbered) - 1, work_ms)
            is_ours = left_as is not None
        elif end is not None:
            is_ours = owned.finish(connection, ours, end, change.error_code)
        else:
            is_ours = owned.commit(connection, ours, len(change.started) + len(change.recorded), work_ms)
        if not is_ours:
            self._is_repeated = self._may_be_written and owned.is_committed(connection, ours)
            if self._is_repeated:
                return None  # an earlier try was committed, and its reply was lost
            self._loop.call_soon(self.lost_ownership)
            raise StaleOwner(lease.run_id, lease.fence)
        self._may_be_written = True
        woken = record(connection, lease, lease.fence, change, numbered, blocks)
        self._noted = self._family.note(connection, lease, end, change.release)
        failpoint("commit-before")
        return lease.run_id if left_as == "queued" else woken

    async def _seal_all(self) -> None:
        async with self._busy:
            taken = self._deltas.pieces()
            if self.is_over or not taken:
                return
            blocks = self._blocks(taken)
            try:
                await self._save(Commit(), (), blocks)
            except StaleOwner:
                return
            except CallboardError as error:  # the next call of ``seal_soon``, or the message's commit, tries again
                log.warning("deltas were not sealed early run_id=%s: %s", self.lease.run_id, error)
                return
            self._deltas.note_sealed(taken)
