"""The one ordered writer of a run: it numbers everything, commits what counts, and tells the observers after.

The rules are those of the promises (docs/journal.md): nothing numbered n+1 leaves before n is confirmed;
a commit that fails gives its numbers back; committed events stand behind every earlier delta; the
``message`` makes text final, and its pieces are sealed in the same commit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, bindparam, select, update

from bus.journal.events import block_row, event_row, insert_rows
from bus.journal.group_commit import GroupCommit
from bus.journal.leases import RESERVE, Lease, reserve_on
from bus.journal.parting import Parting, part
from bus.journal.results import refer_to_messages
from bus.journal.steps import StepEnded, StepStarted, end_steps, leave_steps, start_steps
from bus.journal.threads import HistoryItem, add_messages, close_thread
from bus.loop import ProcessLoop
from bus.payloads import (
    EndPayload,
    MessagePayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    ToolNamePayload,
    WithdrawnPayload,
    ranges_of,
)
from config.clock import epoch_ms, stamp
from config.database import WALL_MS
from config.errors import CallboardError, Retryable, StaleOwner
from config.failpoints import failpoint
from config.tables import runs

log = logging.getLogger(__name__)

T = TypeVar("T")
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Between two tries to write; the last one for as long as it takes."""
HEARD_S = 0.1
"""Between two looks whether heartbeats succeed again."""
Tell = Callable[[Payload], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """What one transaction adds to a run."""

    events: Sequence[Payload] = ()
    started: Sequence[StepStarted] = ()
    ended: Sequence[StepEnded] = ()
    history: Sequence[HistoryItem] = ()
    planned: Sequence[str] = ()
    """Steps that were written down as started and never begun."""
    unknown: Sequence[str] = ()
    """Steps of which nobody can tell what came of them; they stay open until somebody says."""
    parting: Parting | None = None
    """Let the run go that has not ended; nothing of this writer comes after it."""
    error_code: str | None = None
    """With an ``end`` among the events: why it failed, for lists."""


class RunWriter:
    """Everything a run writes goes through here, on the loop's thread."""

    def __init__(
        self, lease: Lease, commits: GroupCommit, loop: ProcessLoop, tell: Tell, *, on_wake: Callable[[str], None]
    ) -> None:
        self.lease = lease
        self._group = commits
        self._loop = loop
        self._tell = tell
        self._on_wake = on_wake
        self.claimed_s = time.monotonic()
        """When the run was claimed: a writer is made in that transaction."""
        self._next = lease.next_seq
        self._commits = lease.commits
        self._may_be_written = False  # whether a commit was tried whose reply may have been lost
        self._top = lease.reserved_to
        self._held: dict[str, list[tuple[Payload, int]]] = {}
        self._sealed: dict[str, list[int]] = {}
        self._blocked: list[tuple[type[Payload], dict[str, str]]] = []
        self._busy = asyncio.Lock()
        self._committing = False
        self._extending: asyncio.Task[None] | None = None
        self._sealing: asyncio.Task[None] | None = None
        self.is_stale = False
        """Whether this writer must not write any more: the run belongs to somebody else, or may."""
        self.is_closed = False
        """Whether the run was let go: nothing is written any more."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called once when the writer becomes stale, so that the work stops too."""
        self.is_silent: Callable[[], bool] = lambda: False
        """Whether this process may not write now, since no heartbeat succeeded for too long; set by the keeper."""

    # --- the hot log's view (LogSource)

    @property
    def sealed_to(self) -> int:
        """Every number up to here is in SQL."""
        first = [pieces[0][0].seq for pieces in self._held.values() if pieces]
        return min(first) - 1 if first else self._next - 1

    @property
    def is_committing(self) -> bool:
        """Whether a commit is on its way; it will tell whether the run is still ours."""
        return self._committing

    def seal_soon(self) -> None:
        """Put the pieces held into SQL now, without waiting for their message."""
        if self._held and not self.is_closed and (self._sealing is None or self._sealing.done()):
            self._sealing = asyncio.get_running_loop().create_task(self._seal_all())

    def lost_ownership(self, why: str = "was taken over by another owner") -> None:
        """Stop writing at once, everywhere; ``why`` is what the log says of the run."""
        if not self.is_closed and not self.is_stale:
            log.warning("run %s run_id=%s fence=%s", why, self.lease.run_id, self.lease.fence)
            self.is_stale = True
            self.on_lost()

    # --- deltas

    def response(self, content: str, message_id: str, step_id: str) -> None:
        """Number a piece of the answer and tell it."""
        self._delta(ResponsePayload, {"content": content, "message_id": message_id, "step_id": step_id})

    def reasoning(self, content: str, message_id: str, step_id: str) -> None:
        """Number a piece of thinking and tell it."""
        self._delta(ReasoningPayload, {"content": content, "message_id": message_id, "step_id": step_id})

    def tool_name(self, call_id: str, name: str, message_id: str, step_id: str) -> None:
        """Number the news that a tool's arguments have begun, and tell it."""
        fields = {"call_id": call_id, "name": name, "message_id": message_id, "step_id": step_id}
        self._delta(ToolNamePayload, fields)

    @property
    def is_full(self) -> bool:
        """Whether deltas wait for numbers; a reader of a fast stream pauses with ``room()``."""
        return bool(self._blocked)

    async def room(self) -> None:
        """Return when there are numbers again.

        Raises:
            StaleOwner: there will never be any, the run belongs to somebody else.
        """
        await self._reserve_more_now()

    def _delta(self, kind: type[Payload], fields: dict[str, str]) -> None:
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
        self._held.setdefault(fields["message_id"], []).append((payload, now))
        if self._top - self._next < RESERVE // 2:
            self._extend()
        self._tell(payload)

    def _release_blocked(self) -> None:
        waiting, self._blocked = self._blocked, []
        for kind, fields in waiting:
            if self.is_stale or self.is_closed:
                return
            self._delta(kind, fields)

    def _extend(self) -> None:
        if self._extending is None or self._extending.done():
            self._extending = asyncio.get_running_loop().create_task(self._reserve_more())

    async def _reserve_more(self) -> None:
        """Take numbers until nothing waits for one; what waits for a commit is let go behind it."""
        lease, is_short = self.lease, True
        while is_short and not self.is_closed:
            upto = max(self._top, self._next) + RESERVE
            if not await self._patiently(reserve_on, lease.run_id, lease.fence, upto):
                self.lost_ownership()
                return
            self._top = upto
            if not self._committing:
                self._release_blocked()
            is_short = bool(self._blocked) and not self._committing

    async def _reserve_more_now(self) -> None:
        self._extend()
        assert self._extending is not None
        await asyncio.shield(self._extending)  # others wait for it too
        if self.is_stale:
            raise StaleOwner(self.lease.run_id, self.lease.fence)

    # --- commits

    async def commit(self, change: Commit) -> list[Payload]:
        """Return the events as numbered, after they are in SQL and the observers were told.

        Cancelling the caller does not cut a commit in half: it is finished all the same, and whatever is
        committed next stands behind it.

        Raises:
            StaleOwner: somebody else owns the run; nothing was written.
        """
        return await asyncio.shield(self._commit_alone(change))

    async def _commit_alone(self, change: Commit) -> list[Payload]:
        async with self._alone():
            return await self._commit(change)

    async def withdraw(self, message_id: str, *events: Payload) -> None:
        """Take back every piece of a message that will not be finished, and commit ``events`` with that."""
        await asyncio.shield(self._withdraw_alone(message_id, events))

    async def _withdraw_alone(self, message_id: str, events: Sequence[Payload]) -> None:
        self._blocked = [(kind, fields) for kind, fields in self._blocked if fields["message_id"] != message_id]
        async with self._alone():
            if events or self._withdrawal([message_id]):
                await self._commit(Commit(events=events), [message_id])

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold back the deltas that come from now on, and let those that came before have their numbers."""
        async with self._busy:
            while self._blocked and not (self.is_stale or self.is_closed):
                await self._reserve_more_now()
            if self.is_stale or self.is_closed:
                raise StaleOwner(self.lease.run_id, self.lease.fence)
            self._committing = True
            try:
                yield
            finally:
                self._committing = False
                self._release_blocked()

    async def _commit(self, change: Commit, gone: Sequence[str] = ()) -> list[Payload]:
        """Commit ``change`` behind the withdrawal of the messages in ``gone``."""
        final = [p.message_id for p in change.events if isinstance(p, MessagePayload)]
        end = next((p for p in change.events if isinstance(p, EndPayload)), None)
        is_last = end is not None or change.parting is not None
        if is_last:  # what is no message by now never will be one
            gone = self._unfinished(final)
        events = [*self._withdrawal(gone), *change.events]
        await self._make_room(len(events), is_last)
        at = stamp()
        numbered = [replace(payload, seq=self._next + i, at=at) for i, payload in enumerate(events)]
        blocks = [block for message_id in final if (block := self._block(message_id)) is not None]
        woken = await self._save(change, numbered, blocks)
        self._next += len(numbered)
        self._let_go([*final, *gone])
        self.is_closed = is_last
        for payload in numbered:
            self._tell(payload)
        if woken is not None:
            self._on_wake(woken)
        return numbered

    def _unfinished(self, final: Sequence[str]) -> list[str]:
        return [message_id for message_id in {**self._held, **self._sealed} if message_id not in final]

    def _withdrawal(self, message_ids: Sequence[str]) -> list[Payload]:
        """Return the event that takes these messages' pieces back, if anything of them was told."""
        held = [payload.seq for message_id in message_ids for payload, _ in self._held.get(message_id, ())]
        sealed = [number for message_id in message_ids for number in self._sealed.get(message_id, ())]
        return [WithdrawnPayload(ranges=ranges_of(held + sealed))] if held or sealed else []

    def _let_go(self, message_ids: Sequence[str]) -> None:
        for message_id in message_ids:
            self._held.pop(message_id, None)
            self._sealed.pop(message_id, None)

    async def _save(self, change: Commit, numbered: Sequence[Payload], blocks: Sequence[dict[str, Any]]) -> str | None:
        """Write this change once, however often it is tried."""
        self._may_be_written = False  # an earlier change that was given up is another one
        # A run that is let go waits for nothing: others may take it, and this process may be about to end.
        written = self._patiently(
            self._write, change, numbered, blocks, then=self._is_committed, is_urgent=change.parting is not None
        )
        woken = await written
        self._commits += 1
        return woken

    async def _patiently(
        self,
        function: Callable[..., T],
        *args: Any,
        then: Callable[[], None] = lambda: None,
        is_urgent: bool = False,
    ) -> T:
        """Write, and again while the database is locked, full or away and the run is still ours.

        A reply that was lost with the connection does no harm: the second try sees that the first one counted.
        """
        pauses_s = chain(PAUSES_S, repeat(PAUSES_S[-1]))
        while True:
            await self.heard()
            try:
                work = self._group.submit(
                    self.lease.run_id, lambda connection: function(connection, *args), then=then, is_urgent=is_urgent
                )
                return await asyncio.wrap_future(work)
            except Retryable as wrong:
                if self.is_stale:
                    raise StaleOwner(self.lease.run_id, self.lease.fence) from None
                log.info("could not write yet run_id=%s: %s", self.lease.run_id, wrong)
                await asyncio.sleep(next(pauses_s))

    async def heard(self) -> None:
        """Return when this process may write: at once, unless its heartbeats fail.

        Raises:
            StaleOwner: meanwhile the run went to another owner.
        """
        while self.is_silent():
            if self.is_stale:
                raise StaleOwner(self.lease.run_id, self.lease.fence)
            await asyncio.sleep(HEARD_S)

    def _write(
        self, connection: Connection, change: Commit, numbered: Sequence[Payload], blocks: Sequence[dict[str, Any]]
    ) -> str | None:
        """Write one change, on a writer's thread; return a run that may begin now: the thread's next one, or this."""
        lease, end = self.lease, next((p for p in numbered if isinstance(p, EndPayload)), None)
        if not self._is_ours(connection, change, end, last=self._next + len(numbered) - 1):
            self._may_be_written = False  # an earlier try was committed, and only its reply was lost
            return None
        self._may_be_written = True
        written, ended = refer_to_messages(numbered, change.ended, change.history)
        rows = [event_row(payload, lease.run_id, lease.thread_id, lease.fence) for payload in written]
        insert_rows(connection, [*blocks, *rows])
        end_steps(connection, ended)
        start_steps(connection, lease, change.started)
        leave_steps(connection, change.planned, "planned")
        leave_steps(connection, change.unknown, "unknown")
        add_messages(connection, lease, change.history)
        woken = close_thread(connection, lease) if end is not None else None
        failpoint("commit-before")
        return lease.run_id if change.parting is not None and change.parting.status == "queued" else woken

    def _is_committed(self) -> None:
        self._may_be_written = False
        failpoint("commit")

    def _is_ours(self, connection: Connection, change: Commit, end: EndPayload | None, last: int) -> bool:
        """Return whether this commit still has to be written, with the run's row locked for it.

        Raises:
            StaleOwner: somebody else owns the run.
        """
        if change.parting is not None:
            is_done = part(connection, self._owned(), change.parting, last)
        elif end is not None:
            is_done = self._end(connection, end, change.error_code)
        else:
            is_done = connection.execute(_TOUCH, {**self._owned(), "started": len(change.started)}).rowcount == 1
        if is_done:
            return True
        if not (self._may_be_written and connection.execute(_COMMITTED, self._owned()).first()):
            self._refuse()
        return False

    def _end(self, connection: Connection, end: EndPayload, error_code: str | None) -> bool:
        values = {
            "new_status": end.status, "why": end.reason, "last": end.seq, "cost": end.cost_usd, "error": error_code,
            "usage": orjson.dumps(dict(end.usage)).decode() if end.usage else None,
            "output": orjson.dumps(end.output).decode() if end.output is not None else None,
            "took_steps": end.steps or 0,
        }  # fmt: skip
        return connection.execute(_END, values | self._owned()).rowcount == 1

    def _refuse(self) -> None:
        self._loop.call_soon(self.lost_ownership)
        raise StaleOwner(self.lease.run_id, self.lease.fence)

    def _owned(self) -> dict[str, Any]:
        return {"its_id": self.lease.run_id, "its_fence": self.lease.fence, "its_commits": self._commits}

    def _block(self, message_id: str) -> dict[str, Any] | None:
        pieces = self._held.get(message_id)
        return block_row(pieces, self.lease.run_id, self.lease.fence) if pieces else None

    async def _make_room(self, count: int, is_last: bool) -> None:
        if self._next + count - 1 > self._top:
            await self._reserve_more_now()
        if is_last and self._extending is not None and not self._extending.done():
            await asyncio.wait([self._extending])  # behind the last commit it would be refused, as to a stale owner

    async def _seal_all(self) -> None:
        async with self._busy:
            if self.is_stale or self.is_closed:
                return
            taken = {message_id: list(pieces) for message_id, pieces in self._held.items() if pieces}
            if not taken:
                return
            blocks = [block_row(pieces, self.lease.run_id, self.lease.fence) for pieces in taken.values()]
            try:
                await self._save(Commit(), (), blocks)
            except StaleOwner:
                return
            except CallboardError as wrong:  # the next reason to seal, or the message, tries again
                log.warning("pieces were not sealed early run_id=%s: %s", self.lease.run_id, wrong)
                return
            for message_id, pieces in taken.items():
                del self._held[message_id][: len(pieces)]
                self._sealed.setdefault(message_id, []).extend(payload.seq for payload, _ in pieces)


# Each commit counts itself, so that one whose reply was lost can be told from one that never was.
_OWNED = (
    update(runs)
    .where(
        runs.c.id == bindparam("its_id"), runs.c.fence == bindparam("its_fence"), runs.c.status == "running",
        runs.c.commits == bindparam("its_commits"),
    )
    .values(commits=runs.c.commits + 1)
)  # fmt: skip
_COMMITTED = select(runs.c.id).where(
    runs.c.id == bindparam("its_id"), runs.c.fence == bindparam("its_fence"),
    runs.c.commits == bindparam("its_commits") + 1,
)  # fmt: skip
_END = _OWNED.values(
    status=bindparam("new_status"), reason=bindparam("why"), reserved_to=bindparam("last"), lease_until=None,
    owner=None, usage_json=bindparam("usage"), cost_usd=bindparam("cost"), output_json=bindparam("output"),
    error_code=bindparam("error"), ended_ms=WALL_MS, steps=bindparam("took_steps"),
)  # fmt: skip
_TOUCH = _OWNED.values(steps=runs.c.steps + bindparam("started"))
