"""The one ordered writer of a run: it numbers everything, commits what counts, and tells the observers after.

The rules are those of the promises (docs/journal.md): nothing numbered n+1 leaves before n is confirmed;
a commit that fails gives its numbers back; committed events stand behind every earlier delta; the
``message`` makes text final, and its pieces are sealed in the same commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import orjson
from sqlalchemy import Connection, bindparam, update

from bus.journal.events import block_row, event_row, insert_rows
from bus.journal.leases import RESERVE, Lease, reserve
from bus.journal.steps import StepEnded, StepStarted, end_steps, start_steps
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
from config.database import Database
from config.errors import CallboardError, DatabaseBusy, StaleOwner
from config.tables import runs

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Tell = Callable[[Payload], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """What one transaction adds to a run."""

    events: Sequence[Payload] = ()
    started: Sequence[StepStarted] = ()
    ended: Sequence[StepEnded] = ()
    history: Sequence[HistoryItem] = ()
    error_code: str | None = None
    """With an ``end`` among the events: why it failed, for lists."""


class RunWriter:
    """Everything a run writes goes through here, on the loop's thread."""

    def __init__(
        self, lease: Lease, database: Database, loop: ProcessLoop, tell: Tell, *, on_wake: Callable[[str], None]
    ) -> None:
        self.lease = lease
        self._database = database
        self._loop = loop
        self._tell = tell
        self._on_wake = on_wake
        self._next = lease.next_seq
        self._top = lease.reserved_to
        self._held: dict[str, list[tuple[Payload, int]]] = {}
        self._sealed: dict[str, list[int]] = {}
        self._blocked: list[tuple[type[Payload], dict[str, str]]] = []
        self._busy = asyncio.Lock()
        self._committing = False
        self._extending: asyncio.Task[None] | None = None
        self._sealing: asyncio.Task[None] | None = None
        self.is_stale = False
        """Whether this writer must not write any more: the run belongs to somebody else."""
        self.is_closed = False
        """Whether the end was written."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called once when the writer becomes stale, so that the work stops too."""

    # --- the hot log's view (LogSource)

    @property
    def sealed_to(self) -> int:
        """Every number up to here is in SQL."""
        first = [pieces[0][0].seq for pieces in self._held.values() if pieces]
        return min(first) - 1 if first else self._next - 1

    def seal_soon(self) -> None:
        """Put the pieces held into SQL now, without waiting for their message."""
        if self._held and not self.is_closed and (self._sealing is None or self._sealing.done()):
            self._sealing = asyncio.get_running_loop().create_task(self._seal_all())

    def lost_ownership(self) -> None:
        """Stop writing at once, everywhere."""
        if not self.is_closed and not self.is_stale:
            log.warning("run was taken over by another owner run_id=%s fence=%s", self.lease.run_id, self.lease.fence)
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
        if self._committing or self._blocked or self._next > self._top:
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
            if not await self._patiently(reserve, self._database, lease.run_id, lease.fence, upto):
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
        is_end = any(isinstance(p, EndPayload) for p in change.events)
        if is_end:  # what is no message by now never will be one
            gone = self._unfinished(final)
        events = [*self._withdrawal(gone), *change.events]
        await self._make_room(len(events), is_end)
        at = stamp()
        numbered = [replace(payload, seq=self._next + i, at=at) for i, payload in enumerate(events)]
        end = next((p for p in numbered if isinstance(p, EndPayload)), None)
        blocks = [block for message_id in final if (block := self._block(message_id)) is not None]
        woken = await self._patiently(self._write, change, numbered, blocks, end)
        self._next += len(numbered)
        self._let_go([*final, *gone])
        self.is_closed = end is not None
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

    async def _patiently(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Write, and again as long as another process holds the database's lock and the run is still ours."""
        while True:
            try:
                return await self._loop.write(function, *args, **kwargs)
            except DatabaseBusy:
                if self.is_stale:
                    raise StaleOwner(self.lease.run_id, self.lease.fence) from None
                await asyncio.sleep(0.1)

    def _write(
        self, change: Commit, numbered: Sequence[Payload], blocks: Sequence[dict[str, Any]], end: EndPayload | None
    ) -> str | None:
        """Do the transaction, on a thread; return the thread's next run if this one ended and one waits."""
        lease = self.lease
        with self._database.write() as connection:
            if end is None:
                self._check_fence(connection, len(change.started))
            else:
                self._end(connection, end, change.error_code)
            rows = [event_row(payload, lease.run_id, lease.thread_id, lease.fence) for payload in numbered]
            insert_rows(connection, [*blocks, *rows])
            end_steps(connection, change.ended)
            start_steps(connection, lease, change.started)
            add_messages(connection, lease, change.history)
            return close_thread(connection, lease) if end is not None else None

    def _check_fence(self, connection: Connection, started: int) -> None:
        found = connection.execute(_TOUCH, {**self._owned(), "started": started}).rowcount
        if found != 1:
            self._refuse()

    def _end(self, connection: Connection, end: EndPayload, error_code: str | None) -> None:
        values = {
            "new_status": end.status, "why": end.reason, "last": end.seq, "cost": end.cost_usd, "error": error_code,
            "usage": orjson.dumps(dict(end.usage)).decode() if end.usage else None,
            "output": orjson.dumps(end.output).decode() if end.output is not None else None,
            "now_ms": epoch_ms(), "took_steps": end.steps or 0,
        }  # fmt: skip
        if connection.execute(_END, values | self._owned()).rowcount != 1:
            self._refuse()

    def _refuse(self) -> None:
        self._loop.call_soon(self.lost_ownership)
        raise StaleOwner(self.lease.run_id, self.lease.fence)

    def _owned(self) -> dict[str, Any]:
        return {"its_id": self.lease.run_id, "its_fence": self.lease.fence}

    def _block(self, message_id: str) -> dict[str, Any] | None:
        pieces = self._held.get(message_id)
        return block_row(pieces, self.lease.run_id, self.lease.fence) if pieces else None

    async def _make_room(self, count: int, is_end: bool) -> None:
        if self._next + count - 1 > self._top:
            await self._reserve_more_now()
        if is_end and self._extending is not None and not self._extending.done():
            await asyncio.wait([self._extending])  # an extension after the end would be refused, as if to a stale owner

    async def _seal_all(self) -> None:
        async with self._busy:
            if self.is_stale or self.is_closed:
                return
            taken = {message_id: list(pieces) for message_id, pieces in self._held.items() if pieces}
            if not taken:
                return
            blocks = [block_row(pieces, self.lease.run_id, self.lease.fence) for pieces in taken.values()]
            try:
                await self._patiently(self._write, Commit(), (), blocks, None)
            except StaleOwner:
                return
            except CallboardError as wrong:  # the next reason to seal, or the message, tries again
                log.warning("pieces were not sealed early run_id=%s: %s", self.lease.run_id, wrong)
                return
            for message_id, pieces in taken.items():
                del self._held[message_id][: len(pieces)]
                self._sealed.setdefault(message_id, []).extend(payload.seq for payload, _ in pieces)


_OWNED = update(runs).where(
    runs.c.id == bindparam("its_id"), runs.c.fence == bindparam("its_fence"), runs.c.status == "running"
)
_END = _OWNED.values(
    status=bindparam("new_status"), reason=bindparam("why"), reserved_to=bindparam("last"), lease_until=None,
    owner=None, usage_json=bindparam("usage"), cost_usd=bindparam("cost"), output_json=bindparam("output"),
    error_code=bindparam("error"), ended_ms=bindparam("now_ms"), steps=bindparam("took_steps"),
)  # fmt: skip
_TOUCH = _OWNED.values(steps=runs.c.steps + bindparam("started"))
