"""The hot log in Redis: a stream and a channel a run, written by one self-clocked batcher a process."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from pathlib import Path
from typing import Any

from bus.journal.live.database_id import announcement
from bus.journal.live.hotlog import Listener, LogSource, Pending, WrittenRun
from bus.journal.live.signatures import Keyring, sign
from bus.journal.live.subscriber import Subscriber
from bus.journal.live.tenant_budgets import BudgetOf, TenantBudgets
from bus.journal.live.trimmer import Trimmer
from bus.journal.log.line import Line, pack, stored_line
from bus.keys import Keys
from bus.redis_wire import Command, RedisWire, connect
from config.database.errors import DatabaseUnreachable
from config.redis.errors import RedisUnreachable

log = logging.getLogger(__name__)

SCRIPT = (Path(__file__).parent / "append.lua").read_text()
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()
DOWN_S = 0.7
"""Seconds between two attempts to reach Redis, and between two early seals while it is away."""
LATE_S = 0.7
"""How long Redis may take to answer a batch; then it counts as down, and viewers are served from SQL."""
LOOP_LATE_S = 0.1
"""When a timer fires later than this, this process was late itself, and the answer may lie here unread."""
READ_S = 2.0
"""How long it may take to answer a reader; a page of events is larger."""
REPLY_S = 5.0
"""How long it may take before the connection is given up."""
REFUSED_S = 60.0
"""Seconds between two warnings that Redis refuses writes."""
MAX_ENTRY_BYTES = 64 * 1024
"""A body is cut about here, so that one reader's page stays small."""


class RedisHotLog:
    """What is pending leaves in one pipeline as soon as the last one returned: no timer, no waiting.

    At a low rate that is one event at once; at a high rate batches grow by themselves.
    """

    def __init__(
        self,
        url: str,
        keys: Keys,
        keyring: Keyring,
        *,
        ttl_s: int,
        max_bytes: int,
        budget_of: BudgetOf = lambda tenant: 0,
    ) -> None:
        self._url = url
        self._keys = keys
        self.keyring = keyring
        """Verifies everything that is read."""
        self._ttl_ms = ttl_s * 1000
        self._max_bytes = max_bytes
        self._runs: dict[str, WrittenRun] = {}
        self._dirty: dict[str, WrittenRun] = {}
        self._others: list[Command] = []
        self._writer: RedisWire | None = None
        self._connecting: asyncio.Task[RedisWire] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._sealing: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._subscriber = Subscriber(url, keyring)
        self._budgets = TenantBudgets(keys, budget_of, self._ask, ttl_ms=self._ttl_ms)
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._is_down = False  # logged once per outage
        self._refused_at_s = float("-inf")

    # --- writing

    def attach(self, run_id: str, fence: int, source: LogSource) -> bool:
        keys, earlier = self._keys, self._runs.get(run_id)
        if earlier is not None and earlier.source is not source:
            if fence < earlier.fence:
                source.lost_ownership()
                return False
            earlier.source.lost_ownership()
        stream, meta, channel = (name(source.tenant, run_id) for name in (keys.stream, keys.meta, keys.live))
        run = self._runs[run_id] = WrittenRun(run_id, fence, source, stream, meta, channel, Trimmer(fence))
        self._budgets.attached(run)
        return True

    def is_written_by(self, run_id: str, fence: int) -> bool:
        run = self._runs.get(run_id)
        return run is not None and run.fence == fence

    def append(self, run_id: str, seq: int, line: bytes) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        run.last = seq
        if run.pending and run.pending[-1].size < MAX_ENTRY_BYTES:
            pending = run.pending[-1]
            pending.last = seq
            pending.lines.append(line)
            pending.size += len(line)
        else:
            run.pending.append(Pending(seq, seq, [line], len(line)))
            self._dirty[run_id] = run
        self._schedule()

    def hint_stored(self, run_id: str, upto: int) -> None:
        run = self._runs.get(run_id)
        if run is not None and run.last < upto:
            run.stored_to = upto
            self._dirty[run_id] = run
            self._schedule()

    async def detach(self, run_id: str, fence: int | None = None) -> None:
        run = self._runs.get(run_id)
        if run is not None and fence in (None, run.fence):
            del self._runs[run_id]  # what it still has pending stands before these in the next pipeline
            for pending in run.pending:
                run.trimmer.add(pending.last, pending.size)
            self._others += run.trimmer.trim(run.stream, run.meta, run.source.sealed_to)
            self._others += [("PEXPIRE", run.stream, self._ttl_ms), ("PEXPIRE", run.meta, self._ttl_ms)]
            self._schedule()
            self._budgets.detached(run)

    async def keep(self, runs: Iterable[tuple[str, str]]) -> None:
        runs = list(runs)
        self._budgets.keep(runs)
        for run in runs:
            for name in (self._keys.stream(*run), self._keys.meta(*run)):
                self._others.append(("PEXPIRE", name, self._ttl_ms))
        self._schedule()

    def nudge(self, channel: str, text: str) -> None:
        self._others.append(("PUBLISH", channel, text))
        self._schedule()

    def announce(self, database_id: str) -> None:
        self._others += announcement(self._keys, database_id)
        self._schedule()

    def _schedule(self) -> None:
        if self._flushing is None and not self._closed:
            self._idle.clear()
            # In a context of no run: the batches, and the connection that they open, are all runs'.
            self._flushing = asyncio.get_running_loop().create_task(self._flush_all(), context=Context())

    async def _flush_all(self) -> None:
        """Send batches until nothing is pending."""
        try:
            while self._dirty or self._others:
                await self._flush()
        finally:
            self._flushing = None
            self._idle.set()
            if self._dirty or self._others:
                self._schedule()

    async def _flush(self) -> None:
        try:
            if self._dirty and not await self.keyring.open():
                raise DatabaseUnreachable("they cannot be signed while the database is away")
            self._expect_answer(LATE_S, self._loop_time())
            await self._send(await self._connection())
        except (RedisUnreachable, DatabaseUnreachable) as error:
            self._drop(error)
            await asyncio.sleep(DOWN_S)
        except ConnectionError as error:
            self._drop(error)
        finally:
            if self._watch is not None:
                self._watch.cancel()

    def _expect_answer(self, timeout_s: float, began_s: float) -> None:
        # A timer is cheaper than a timeout around each batch, of which there may be one a token.
        due_s = self._loop_time() + timeout_s
        self._watch = asyncio.get_running_loop().call_at(due_s, self._check_answer, began_s, due_s)

    def _check_answer(self, began_s: float, due_s: float) -> None:
        if self._loop_time() - due_s > LOOP_LATE_S:  # then an answer that lies here is read first
            self._watch = asyncio.get_running_loop().call_later(LOOP_LATE_S, self._answer_missed, began_s)
        else:
            self._answer_missed(began_s)

    def _answer_missed(self, began_s: float) -> None:
        """Seal, so that SQL holds what Redis does not accept; after ``REPLY_S`` another connection is tried."""
        self._go_down("Redis does not answer")
        self._seal_all()
        if self._writer is not None and self._loop_time() - began_s >= REPLY_S:
            self._writer.close()  # which fails what waits for its replies
        self._expect_answer(DOWN_S, began_s)

    async def _send(self, wire: RedisWire) -> None:
        commands, runs = self._take_batch()
        try:
            replies = await wire.send(commands)
            if any(isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT") for reply in replies):
                await wire.send([("SCRIPT", "LOAD", SCRIPT)])
                replies = await wire.send(commands)
        except ConnectionError:
            wire.close()
            for run in runs:
                run.source.seal_soon()
            raise
        if self._is_down:
            self._is_down = False
            log.warning("live events reach Redis again")
        for run, reply in zip(runs, replies, strict=False):
            self._handle_reply(run, reply)

    async def _connection(self) -> RedisWire:
        """Return the connection for everything but messages; concurrent callers share one attempt to connect."""
        if self._writer is None or not self._writer.is_open:
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.get_running_loop().create_task(connect(self._url), context=Context())
            self._writer = await asyncio.shield(self._connecting)
        return self._writer

    def _take_batch(self) -> tuple[list[Command], list[WrittenRun]]:
        commands: list[Command] = []
        hints: list[Command] = []
        runs: list[WrittenRun] = []
        for run in self._dirty.values():
            run.key = run.key or self.keyring.key_of(run.channel)
            for pending in run.pending:
                body = sign(run.key, pack(pending.lines))
                run.trimmer.add(pending.last, len(body))
                entry = (run.fence, pending.first, pending.last, body, run.channel)
                limits = (self._ttl_ms, self._max_bytes, run.source.sealed_to)
                commands.append(("EVALSHA", SCRIPT_SHA, 2, run.stream, run.meta, *entry, *limits))
                runs.append(run)
            if run.stored_to:
                hints.append(("PUBLISH", run.channel, sign(run.key, stored_line(run.stored_to))))
            run.pending, run.stored_to = [], 0
        commands += hints + self._others
        self._dirty, self._others = {}, []
        return commands, runs

    def _handle_reply(self, run: WrittenRun, reply: Any) -> None:
        if type(reply) is int:  # nearly always
            run.held = reply
            return
        if isinstance(reply, Exception):  # out of memory, read-only replica, no permission
            self._note_refusal(reply)
            return
        answer, run.held = reply
        if answer != b"same":
            # A ``stale`` is a hint too, since any client of Redis can raise a fence there: sealing to SQL shows whether
            # it is true.
            run.source.seal_soon()

    def _note_refusal(self, reply: Exception) -> None:
        """Seal soon, so that SQL holds what Redis does not; subscribers got the events all the same."""
        now_s = self._loop_time()
        if now_s - self._refused_at_s >= REFUSED_S:  # it may be every batch
            self._refused_at_s = now_s
            log.warning("Redis keeps no live events, viewers who come now read the database: %s", reply)
        if self._sealing is None:
            self._sealing = asyncio.get_running_loop().call_later(DOWN_S, self._seal_all)

    def _seal_all(self) -> None:
        self._sealing = None
        for run in self._runs.values():
            run.source.seal_soon()

    def _drop(self, error: Exception) -> None:
        """Drop what is pending: SQL has the log or gets it, and readers poll there."""
        self._go_down(error)
        for run in self._dirty.values():
            run.pending, run.stored_to = [], 0
            run.source.seal_soon()
        self._dirty, self._others = {}, []

    def _go_down(self, error: object) -> None:
        if not self._is_down:
            self._is_down = True
            log.warning("live events do not reach Redis, viewers read the database until it is back: %s", error)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    # --- reading

    async def read_after(self, tenant: str, run_id: str, cursor: int) -> list[Line]:
        if self._is_down:
            self._probe()
            return []
        if not await self.keyring.open():
            return []
        try:
            (entries,) = await self._ask([("XRANGE", self._keys.stream(tenant, run_id), f"({cursor}-0", "+")])
        except (RedisUnreachable, TimeoutError) as error:
            self._go_down(str(error) or "Redis does not answer")
            return []
        except ConnectionError:
            return []
        if isinstance(entries, Exception):
            return []
        channel = self._keys.live(tenant, run_id)
        return [line for line in self.keyring.verify_stored(channel, entries) if line.seq > cursor]

    async def _ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies to commands that are not part of a batch.

        Raises:
            RedisUnreachable, ConnectionError, TimeoutError: there are none.
        """
        async with asyncio.timeout(READ_S):
            wire = await self._connection()
            return await wire.send(commands)

    def _probe(self) -> None:
        """Send one ping at a time to find out whether Redis is back; no reader waits for it."""
        if not self._others:
            self._others.append(("PING",))
            self._schedule()

    @property
    def is_live(self) -> bool:
        return self._subscriber.is_open and self.keyring.is_open and not self._is_down

    @property
    def is_down(self) -> bool:
        return self._is_down

    async def follow(self, tenant: str, run_id: str, listener: Listener) -> None:
        await self.keyring.open()
        await self._subscriber.follow(self._keys.live(tenant, run_id), listener)

    async def unfollow(self, tenant: str, run_id: str, listener: Listener) -> None:
        self._subscriber.unfollow(self._keys.live(tenant, run_id), listener)

    async def listen(self, channel: str, function: Callable[[str], None]) -> None:
        await self._subscriber.listen(channel, function)

    def unlisten(self, channel: str, function: Callable[[str], None]) -> None:
        self._subscriber.unlisten(channel, function)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(0 if self._is_down else 2):
                await self._idle.wait()
            await self._budgets.finish()
        except TimeoutError:
            log.info("hot log closed with events unsent; SQL has them")
        self._closed = True
        for waiting in (self._flushing, self._sealing, self._watch):
            if waiting is not None:
                waiting.cancel()
        self._budgets.close()
        self._subscriber.close()
        if self._writer is not None:
            self._writer.close()
