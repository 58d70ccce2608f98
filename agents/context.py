"""What a run carries with it: its history, its observers, its writer, and whether it was told to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Connection

from bus.journal.journal import Journal
from bus.journal.leases import Lease
from bus.journal.threads import HistoryItem, history
from bus.journal.writer import Commit, RunWriter
from bus.payloads import Payload
from config.settings import Settings
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import ObserverInvoker


class RunContext:
    """One owner's view of one run; made when it is claimed, thrown away when it ends."""

    def __init__(
        self, journal: Journal, lease: Lease, observers: Sequence[AgentObserver], chat_history: list[HistoryItem]
    ) -> None:
        self.lease = lease
        self.settings: Settings = journal.settings
        self.loop = journal.loop
        self._history = chat_history
        self._invoker = ObserverInvoker(observers)
        self.agent_facts = AgentFacts(id=lease.agent_id, name=lease.agent_name, model=lease.model)
        self.run_facts = RunFacts(
            run_id=lease.run_id, thread_id=lease.thread_id, tenant=lease.tenant, principal=lease.principal,
            fence=lease.fence, detached=lease.detached, privileged=self.privileged, metadata=lease.metadata,
        )  # fmt: skip
        self.writer: RunWriter = journal.writer(lease, self.tell)
        self.is_stopped = False
        """Whether somebody asked this run to stop."""
        self.halt: Callable[[], None] = lambda: None
        """Cancels the work on this run; set by whoever started it."""

    @classmethod
    def load(
        cls, connection: Connection, journal: Journal, lease: Lease, observers: Sequence[AgentObserver]
    ) -> RunContext:
        """Return the context of a claimed run, with its thread's history read from SQL."""
        return cls(journal, lease, observers, history(connection, lease.thread_key, lease.turn))

    @property
    def thread_id(self) -> str:
        """The conversation this run belongs to."""
        return self.lease.thread_id

    @property
    def detached(self) -> bool:
        """Whether the caller went away without waiting."""
        return self.lease.detached

    @property
    def privileged(self) -> bool:
        """Whether a verified privilege grant came with the run; there are none yet."""
        return False

    @property
    def chat_history(self) -> Sequence[HistoryItem]:
        """The conversation so far, this run's messages included."""
        return self._history

    @property
    def observer_invoker(self) -> ObserverInvoker:
        """Who tells the observers."""
        return self._invoker

    @property
    def sandbox(self) -> Path:
        """The folder this agent's file tools may use; made on first use."""
        folder = self.settings.state / "sandbox" / self.lease.tenant / self.lease.agent_id
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

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

    def add_to_history(self, item: HistoryItem) -> None:
        """Add a message that SQL has."""
        self._history.append(item)

    def stop(self) -> None:
        """Stop the work as soon as it can be; asked again, nothing more happens."""
        if not self.is_stopped:
            self.is_stopped = True
            self.halt()
