"""The base class of observers, and the frozen facts that they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sqlalchemy import Connection, Row

from bus.identity.audit.anchors import AuditHead
from bus.payloads import EVENT_TYPES, Payload
from config.definitions.runner_spec import Strict
from config.identity.contexts import DeclaredContext, GoldenContext, trace_id_of_run
from config.settings import Settings

if TYPE_CHECKING:
    from bus.journal.owner import HotLog, Lease
    from bus.journal.tailing import RunReader


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFacts:
    """The agent of a run."""

    id: str
    name: str
    model: str
    """The LiteLLM model that the run was accepted with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """The run an event belongs to."""

    run_id: str
    thread_id: str
    kind: str = "agent"
    """``agent``, ``tool`` or ``workflow``."""
    parent_id: str | None = None
    """The run that delegated it; None: no run did."""
    tenant: str = "default"
    principal: str = "local"
    fence: int = 0
    """The fence of the owner that writes; a later owner has a higher one."""
    detached: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    trace_id: str | None = None
    """None: an earlier release started the run."""
    correlation_id: str | None = None
    """The one that a client chose for the run, or else the trace id."""
    golden: GoldenContext | None = None
    """For which application and environment it works; None of a run that an earlier release started."""


def facts_of(run: Lease | Row[Any], run_id: str, metadata: Mapping[str, Any]) -> tuple[AgentFacts, RunFacts]:
    """Return what observers get of a run, from its lease or its row."""
    declared = DeclaredContext.from_json(run.context_json) if run.context_json is not None else None
    agent = AgentFacts(id=run.agent_id, name=run.agent_name, model=run.model)
    return agent, RunFacts(
        run_id=run_id,
        thread_id=run.thread_id,
        kind=run.kind,
        parent_id=run.parent_id,
        tenant=run.tenant,
        principal=run.principal,
        fence=run.fence,
        detached=run.detached,
        metadata=metadata,
        trace_id=run.trace_id,
        correlation_id=run.correlation_id or run.trace_id,
        golden=declared.golden(run.principal, run.trace_id or trace_id_of_run(run_id))
        if declared is not None
        else None,
    )


def page_of(public_url: str, run: RunFacts) -> str:
    """Return the address of a run on the page, where the reader signs in."""
    return f"{public_url.rstrip('/')}/#/thread/{run.thread_id}/of/{run.principal}/run/{run.run_id}"


LONGEST_POLL_S = 2.5
"""Each look shows the other processes that this one lives; after 10 s without one they take its partitions."""
Delivery = Literal["critical", "reliable", "best_effort"]
"""What becomes of an event that an observer does not take: it is tried until it is taken, for a day, or once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tailing:
    """How an observer that tails the log is fed."""

    delivery: Delivery = "reliable"
    """What becomes of an event that it raises for: ``critical`` tries until it is taken, and its log is kept for it;
    ``reliable`` gives up after ``retry_for_s``, and keeps a dead letter; ``best_effort`` drops and counts it."""
    threads: int = 1
    """Threads of a process that feed it, each with an instance of its own and other runs."""
    timeout_s: float = 60.0
    """Seconds that one call may take; then it counts as failed, and another thread continues with a new instance."""
    poll_s: float = 0.05
    """Seconds between two looks for new events, at most ``LONGEST_POLL_S``."""
    retry_for_s: float = 24 * 3600.0
    """Seconds for which a failed delivery is tried again; later events of its run wait."""
    types: tuple[str, ...] = ()
    """The types of events that it can do something with, read from the database alone; empty: all."""
    is_per_tenant: bool = False
    """Whether its declaration has to name ``tenants``, as one that sends something out of the deployment does."""

    def __post_init__(self) -> None:
        if not 0 < self.poll_s <= LONGEST_POLL_S:
            raise ValueError(
                f"poll_s is {self.poll_s:g}, and an observer looks at least every {LONGEST_POLL_S:g} s; write less"
            )


class NotTaken(Exception):
    """An observer that tails the log raises it to say when it wants the event again, or that it wants none any more.

    Any other exception is a failure as well, and the pauses are the usual ones.
    """

    def __init__(self, problem: str, *, again_in_s: float = 0.0, is_over: bool = False) -> None:
        """``is_over``: the observer is paused until a person resumes it; the event is kept as a failed delivery."""
        super().__init__(problem)
        self.again_in_s, self.is_over = again_in_s, is_over


class ObserverOptions(Strict):
    """The ``options`` of an observer in ``config/observers.yaml``; a class that takes some has a model of its own."""

    def problem(self) -> str | None:
        """Return what is missing outside of the file, such as a secret, as a sentence; the doctor says it."""
        return None


class AgentObserver:
    """Gets every payload of each run that names it; override ``on_response`` or one of the typed hooks.

    Called in the order of the run's numbers. Unless ``inline`` is set, on the observer's own thread,
    behind a queue: it may block, be slow or raise without touching a run. One instance serves a whole
    process, so state belongs in a dict by ``context.run_id``.
    """

    name: ClassVar[str] = ""
    """Its name in definitions; the entry point's name by default."""
    inline: ClassVar[bool] = False
    """Whether it is called on the event loop, between two chunks. Only for code that never waits (under 50 µs);
    one that takes over 5 ms three times is moved behind a queue for the rest of the process."""
    pinned: ClassVar[bool] = False
    """Whether it stays on the event loop, however slow it is, since it needs that thread."""
    wants_deltas: bool = True
    """Whether pieces of text are delivered; without them only committed events are."""
    max_queue: int = 10_000
    """Payloads that may wait for a slow observer; beyond it pieces of text are dropped, beyond twice of it
    committed events as well, except the ``end`` of a run of which something was taken."""
    linger_s: float = 0.01
    """Seconds a queue gathers payloads before it delivers a batch."""

    tailing: ClassVar[Tailing] = Tailing()
    """How it is fed where it tails the log, in a process or a thread of its own (``./callboard observe``)."""
    options_model: ClassVar[type[ObserverOptions] | None] = None
    """Of the ``options`` of its declaration, without which it does not tail the log; None: it takes none."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the process's instance; override it to read settings. Called once, on first use."""
        return cls()

    @classmethod
    def from_options(cls, settings: Settings, options: ObserverOptions | None) -> Self:
        """Return an instance that tails the log; override it to read ``options``. Called for each thread that feeds."""
        return cls.from_settings(settings)

    def listens(self) -> bool:
        """Return whether payloads are wanted; asked once per run, before its first payload."""
        return True

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Take one payload; the default calls the typed hook of its kind."""
        if payload.hook:
            getattr(self, payload.hook)(agent, payload, context)

    def on_audit_head(self, head: AuditHead) -> None:
        """Take the head of a tenant's audit log, to be kept outside the database: a later chain has to contain it.

        Belongs to no run. Called on the observer's own thread, in one worker within a minute after the log grew, and
        in each once an hour. An installed observer that overrides it is called whether or not a definition names it.
        """

    def on_commit(self, connection: Connection) -> None:
        """Write in the transaction that moves the cursor, behind ``flush``; only where it tails the log.

        What is written there is written once for each event, also where a process dies or the partition moves on to
        another one: an instance whose transaction fails is discarded.
        """

    def flush(self) -> None:
        """Called after each batch on the observer's own thread, and (inline ones too) before the process ends."""


class LiveObserver(AgentObserver):
    """An observer that carries the events of this process's runs to viewers; made with the hot log that takes them."""

    def __init__(self, hot_log: HotLog) -> None:
        self.hot_log = hot_log


class LogObserver(AgentObserver):
    """An observer that reads whole runs, such as those that have ended; it only tails the log."""

    runs: RunReader
    """Reads the log and the steps of any run; set before the first event."""


def _ignore(self: AgentObserver, agent: AgentFacts, payload: Any, context: RunFacts) -> None:
    """Do nothing; an observer overrides the hooks it wants."""


HOOKS = tuple(kind.hook for kind in EVENT_TYPES.values())
"""The typed hooks, one per event type: ``on_status``, ``on_text``, ``on_end`` and the others (docs/observers.md)."""
for _hook in HOOKS:
    setattr(AgentObserver, _hook, _ignore)
