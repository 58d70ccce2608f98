"""What a run carries with it: its history, its observers, its writer, and whether it was told to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from agents.window import Window
from bus.journal.journal import Journal
from bus.journal.leases import Lease
from bus.journal.threads import HistoryItem, Past, history
from bus.journal.writer import Commit, RunWriter
from bus.payloads import Payload
from config.errors import StaleOwner
from config.private_files import private_folder
from config.settings import Settings
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import ObserverInvoker

MARGIN_S = 30.0
"""What a step may take beyond its own time, for commits and threads on a busy machine."""


class RunContext:
    """One owner's view of one run; made when it is claimed, thrown away when it ends."""

    def __init__(
        self, journal: Journal, lease: Lease, observers: Sequence[AgentObserver], chat_history: Window
    ) -> None:
        self.lease = lease
        self.settings: Settings = journal.settings
        self.loop = journal.loop
        self._wall_clock_ms = journal.wall_clock_ms
        self._history = chat_history
        self._invoker = ObserverInvoker(observers)
        self._keeper = journal.keeper
        self.agent_facts = AgentFacts(id=lease.agent_id, name=lease.agent_name, model=lease.model)
        self.run_facts = RunFacts(
            run_id=lease.run_id, thread_id=lease.thread_id, tenant=lease.tenant, principal=lease.principal,
            fence=lease.fence, detached=lease.detached, privileged=self.privileged, metadata=lease.metadata,
        )  # fmt: skip
        self.writer: RunWriter = journal.writer(lease, self.tell)
        self.is_stopped = False
        """Whether somebody asked this run to stop."""
        self.is_released = False
        """Whether this process ends soon, so that the run goes on elsewhere after its current step."""
        self._deadlines: dict[object, float] = {}
        self._claimed_s = time.monotonic()
        self.halt: Callable[[], None] = lambda: None
        """Cancels the work on this run; set by whoever started it."""
        self.on_calls_over: Callable[[], Awaitable[None]] | None = None
        """Awaited once, when the tool calls that an earlier owner began have ended and the model is asked again."""

    @classmethod
    def load(
        cls,
        connection: Connection,
        journal: Journal,
        lease: Lease,
        observers: Sequence[AgentObserver],
        history_chars: int,
    ) -> RunContext:
        """Return the context of a claimed run, with the end of its thread's history read from SQL."""
        past = history(connection, lease.thread_key, lease.turn, history_chars)
        return cls(journal, lease, observers, Window(past, history_chars))

    @classmethod
    def unread(cls, journal: Journal, lease: Lease, observers: Sequence[AgentObserver]) -> RunContext:
        """Return the context of a claimed run of whose conversation nothing was read."""
        return cls(journal, lease, observers, Window(Past(items=[]), 0))

    @property
    def thread_id(self) -> str:
        """The conversation this run belongs to."""
        return self.lease.thread_id

    @property
    def detached(self) -> bool:
        """Whether the caller went away without waiting."""
        return self.lease.detached

    @property
    def duration_ms(self) -> int:
        """How long ago the run was accepted; no clock that is set meanwhile changes it."""
        return self.lease.age_ms + round((time.monotonic() - self._claimed_s) * 1000)

    @property
    def privileged(self) -> bool:
        """Whether a verified privilege grant came with the run; there are none yet."""
        return False

    @property
    def chat_history(self) -> Sequence[HistoryItem]:
        """The newest part of the conversation that fits the agent's ``history_chars``, this run's messages included."""
        return self._history.items

    @property
    def is_history_cut(self) -> bool:
        """Whether the conversation has more than ``chat_history``."""
        return self._history.is_cut

    @property
    def observer_invoker(self) -> ObserverInvoker:
        """Who tells the observers."""
        return self._invoker

    @property
    def sandbox(self) -> Path:
        """The folder this agent's file tools may use; made on first use."""
        return private_folder(self.settings.state / "sandbox" / self.lease.tenant / self.lease.agent_id)

    async def wait_expiry_ms(self) -> int:
        """Return until when what the run waits for from now on may come, in ms since 1970 by the database's clock."""
        return await self._wall_clock_ms() + self.settings.approval_ttl_s * 1000

    def tell(self, payload: Payload) -> None:
        """Tell every observer."""
        self._invoker.agent_on_response(self.run_facts, self.agent_facts, payload)

    async def save(self, change: Commit) -> list[Payload]:
        """Commit events, steps and history together; the history here grows with the one in SQL.

        Raises:
            StaleOwner: somebody else owns the run now.
        """
        numbered = await self.writer.commit(change)
        for item in change.history:
            self.add_to_history(item)
        return numbered

    async def note_calls_over(self) -> None:
        """Every tool call that was under way has ended, and the model is asked next."""
        if self.on_calls_over is not None:
            on_calls_over, self.on_calls_over = self.on_calls_over, None
            await on_calls_over()

    def add_to_history(self, item: HistoryItem) -> None:
        """Add a message that SQL has."""
        self._history.add(item)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Have what is inside end within ``seconds``, or something is wrong with it; several may go on at once."""
        one = object()
        self._deadlines[one] = time.monotonic() + seconds + MARGIN_S
        try:
            yield
        finally:
            del self._deadlines[one]

    @property
    def is_within_time(self) -> bool:
        """Whether what goes on now is within its time: of calls at once, of which one may wait for a thread of
        another, the latest deadline counts. Any thread may ask."""
        latest = max(self._deadlines.copy().values(), default=None)  # the loop changes them meanwhile
        return latest is None or time.monotonic() < latest

    async def require_go(self) -> None:
        """Return where something may be done now that cannot be undone; asked right before it.

        While this process does not know whether the run is still its own (it was stopped for a while, or its
        heartbeats fail), it waits for the heartbeat that tells.

        Raises:
            StaleOwner: somebody else has the run.
            CancelledError: the run was asked to stop, and its work is about to hear of it.
        """
        await self.writer.heard()
        if self.writer.is_stale:
            raise StaleOwner(self.lease.run_id, self.lease.fence)
        if self.is_stopped:
            raise asyncio.CancelledError

    def release(self) -> None:
        """Let the run go at the end of its current step; asked again, nothing more happens."""
        self.is_released = True

    def cut(self) -> None:
        """Let the run go now, wherever it is."""
        self.is_released = True
        self.halt()

    def stop(self) -> None:
        """Stop the work as soon as it can be; asked again, nothing more happens."""
        if not self.is_stopped:
            self.is_stopped = True
            self.halt()
