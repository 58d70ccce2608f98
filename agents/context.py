"""The state of a run in its owner's memory: history, observers, writer, and whether a stop was requested."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import Row

from agents.errors import TooManyQuestions
from agents.governance.engine.governance import Governance
from agents.governance.engine.wiring import governance_of
from agents.governance.guardrails.guardrails import UNGUARDED, Guardrails
from agents.prompt.window import Window
from agents.tools.isolation.sandbox import Quota
from agents.tools.requests.sample import Sample
from agents.tools.tool import Tool
from bus.journal import DRAINED, Commit, Journal, Lease, Release, RunWriter, StaleOwner, StickyApproval, Took, Totals
from bus.payloads import EndPayload, Payload
from config.capabilities import Classification
from config.clock import epoch_ms
from config.effects import Effect
from config.errors import Retryable
from config.identity.contexts import DeclaredContext, SecurityContext, reference_of, trace_id_of_run
from config.identity.folders import sandbox_folder
from config.policy_decision import ALLOW_ALL, CallFacts, Policy
from config.sealing import Original, sealer_of
from config.settings import Settings
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import ObserverInvoker


def _declared(lease: Lease, settings: Settings) -> DeclaredContext | None:
    """Return what is declared of a run: by its row, or of a run of an earlier release by the settings of this process.

    What its row has and cannot be read is completed by nothing, since it may have been stricter.
    """
    if lease.context_json is not None:
        return DeclaredContext.from_json(lease.context_json)
    return None if settings.require_contexts else settings.declared_context(lease.tenant)


def _security(
    lease: Lease, declared: DeclaredContext | None, trace_id: str, settings: Settings
) -> SecurityContext | None:
    if settings.require_contexts and (lease.credential is None or lease.trace_id is None):
        return None
    token_ref = declared.token_ref if declared is not None else None
    initiator_id = declared.initiator_id if declared is not None else None
    return SecurityContext(
        initiator_id=initiator_id or lease.principal,
        roles=lease.roles,
        token_ref=token_ref or reference_of(lease.credential or "", lease.credential_id),
        trace_id=trace_id,
    )


MARGIN_S = 30.0
"""Seconds that a step may take beyond its own limit, for commits and threads on a busy machine."""


def facts_of(run: Lease | Row[Any], run_id: str, metadata: Mapping[str, Any]) -> tuple[AgentFacts, RunFacts]:
    """Return what observers get of a run, from its lease or its row."""
    kept = DeclaredContext.from_json(run.context_json) if run.context_json is not None else None
    agent = AgentFacts(id=run.agent_id, name=run.agent_name, model=run.model)
    return agent, RunFacts(
        run_id=run_id,
        thread_id=run.thread_id,
        tenant=run.tenant,
        principal=run.principal,
        fence=run.fence,
        detached=run.detached,
        metadata=metadata,
        trace_id=run.trace_id,
        correlation_id=run.correlation_id or run.trace_id,
        golden=kept.golden(run.principal, run.trace_id or trace_id_of_run(run_id)) if kept is not None else None,
    )


class RunContext:
    """One owner's state of one run, from the claim to the run's end or release."""

    def __init__(
        self, journal: Journal, lease: Lease, observers: Sequence[AgentObserver], chat_history: Window
    ) -> None:
        self.lease = lease
        self.settings: Settings = journal.settings
        self.loop = journal.loop
        self._wall_clock_ms = journal.owner.wall_clock_ms
        self._task_waits = journal.owner.task_waits
        self._read, self._sticky_approvals = journal.loop.read, journal.stores.sticky_approvals
        self._asked_lately = journal.readers.runs.asked_lately
        self.trace_id = lease.trace_id or trace_id_of_run(lease.run_id)
        self.declared = _declared(lease, self.settings)
        """What is declared of the run; None where that is unknown and may not be completed."""
        self.golden = self.declared.golden(lease.principal, self.trace_id) if self.declared is not None else None
        """None: no tool may be called."""
        self.security = _security(lease, self.declared, self.trace_id, self.settings)
        """None: the run may not be worked on."""
        self.chat_history = chat_history
        """The newest part of the conversation that fits the agent's ``history_chars``, this run's messages included."""
        self._invoker = ObserverInvoker(observers)
        self._agent_facts, self._run_facts = facts_of(lease, lease.run_id, lease.metadata)
        self.writer: RunWriter = journal.owner.writer(lease, self.notify)
        self.policy: Policy = ALLOW_ALL
        """Decides about each call of a model or a tool."""
        self.guardrails: Guardrails = UNGUARDED
        self.governance: Governance | None = governance_of(
            journal.settings, lease, lease.run_id, self.golden, self.security
        )
        """Asks the remote engine about each call; None where the deployment has none."""
        self.end: EndPayload | None = None
        """The run's last event, once it is committed."""
        self.labels = set(lease.labels)
        """What the run has read so far, as the labels of its tools."""
        self.totals: Callable[[], Totals] = Totals
        """What the run has used so far; set by what executes it."""
        self.sample: Sample | None = None
        """Asks the run's model for a tool; set by what executes it."""
        self.sticky: tuple[StickyApproval, ...] = ()
        """The sticky approvals for the run's principal and agent, as they were read last."""
        self.is_stopped = False
        """Whether a client asked this run to stop."""
        self.release_as: Release | None = None
        """How to release the run after its current step: this process ends soon, or a client requested it."""
        self._deadlines: dict[object, float] = {}
        self._claimed_s = time.monotonic()
        self.halt: Callable[[], object] = lambda: None
        """Cancels the work on this run; set by the handler that started it."""
        self.on_calls_over: Callable[[], Awaitable[None]] | None = None
        """Awaited once, when the tool calls that an earlier owner began have ended and the model is asked again."""

    @property
    def took(self) -> Took:
        """How long the run has taken so far, by a monotonic clock since the claim."""
        duration_ms = self.lease.age_ms + round((time.monotonic() - self._claimed_s) * 1000)
        return Took(duration_ms, self.lease.work_ms_of_all(self._claimed_s))

    @property
    def privileged(self) -> bool:
        """Whether the run has a privilege grant that has not expired."""
        left_ms = self.lease.privileged_for_ms
        return left_ms is not None and (time.monotonic() - self._claimed_s) * 1000 < left_ms

    def call_facts(
        self,
        point: Literal["model", "tool"],
        name: str,
        arguments: Mapping[str, Any] = MappingProxyType({}),
        effect: Effect = Effect.PURE,
        classification: Classification = Classification.INTERNAL,
        labels: Iterable[str] = (),
        identity: str = "",
        *,
        leaves: bool = False,
    ) -> CallFacts:
        """Return what the policy may look at of a call that is about to be made; ``labels`` are the call's own."""
        lease, totals = self.lease, self.totals()
        used = totals.usage
        return CallFacts(
            point=point,
            name=name,
            identity=identity,
            arguments=arguments,
            effect=effect,
            classification=classification,
            labels=frozenset((*self.labels, *labels)),
            leaves=leaves,
            principal=lease.principal,
            roles=lease.roles,
            tenant=lease.tenant,
            agent_id=lease.agent_id,
            model=lease.model,
            is_privileged=self.privileged,
            context=self.golden,
            cost_usd=totals.cost_usd or 0.0,
            tokens=used.get("input_tokens", 0) + used.get("output_tokens", 0),
            steps=totals.steps,
        )

    def add_labels(self, labels: Iterable[str]) -> frozenset[str]:
        """Label what the run has read; return all its labels where one is new, for the commit with the result."""
        before = len(self.labels)
        self.labels.update(labels)
        return frozenset(self.labels) if len(self.labels) > before else frozenset()

    @property
    def sandbox(self) -> Path:
        """Where the principal's files with this agent are; the folder may be missing."""
        lease = self.lease
        return sandbox_folder(self.settings.state, lease.tenant, lease.principal, lease.agent_id)

    @property
    def quota(self) -> Quota:
        """How much the sandbox may hold."""
        chosen = self.settings.for_tenant(self.lease.tenant)
        return Quota(max_bytes=chosen.sandbox_max_bytes, max_files=chosen.sandbox_max_files)

    def may_be_sticky(self, tools: Iterable[Tool | None]) -> bool:
        """Return whether there may be sticky approvals for one of these tools."""
        known_tools = [tool for tool in tools if tool is not None]
        return bool(known_tools) and (self.policy.offers_sticky or any(tool.sticky for tool in known_tools))

    async def read_sticky(self, tools: Iterable[Tool | None]) -> None:
        """Read the sticky approvals anew, where one of these tools may have some."""
        lease = self.lease
        if self.may_be_sticky(tools):
            ours = lease.tenant, lease.principal, lease.agent_id
            self.sticky = await self._read(self._sticky_approvals.valid_of, *ours)

    async def wall_clock_ms(self) -> int:
        """Return now in ms since 1970 by the database's clock, which no worker's clock changes; by this machine's clock
        where the database does not answer."""
        try:
            return await self._wall_clock_ms()
        except Retryable:
            return epoch_ms()

    async def require_may_ask(self, count: int) -> None:
        """Return unless the runs of the principal would ask more questions within an hour than they may.

        Raises:
            TooManyQuestions: they would.
        """
        limit = self.settings.questions_per_hour
        if limit == 0 or count == 0:
            return
        asked = await self._read(self._asked_lately, self.lease.tenant, self.lease.principal, limit)
        if asked + count > limit:
            raise TooManyQuestions(principal=self.lease.principal, asked=asked, limit=limit)

    async def wait_expiry_ms(self) -> int:
        """Return when a wait that begins now expires, in ms since 1970 by the database's clock."""
        return await self._wall_clock_ms() + self.settings.approval_ttl_s * 1000

    def seal(self, what: str, original: Any) -> None:
        """Seal with the next commit what a guardrail removes something from."""
        sealer = sealer_of(self.settings)
        if sealer is not None:
            self.writer.originals.append(Original(what=what, value=original, sealer=sealer))

    def notify(self, payload: Payload) -> None:
        """Deliver an event to every observer."""
        if isinstance(payload, EndPayload):
            self.end = payload
        self._invoker.agent_on_response(self._run_facts, self._agent_facts, payload)

    async def save(self, change: Commit, then: Callable[[], object] = lambda: None) -> list[Payload]:
        """Commit events, steps and history together, and add the history to this context's.

        ``then`` is called once they are committed, also where a stop cancels the caller meanwhile.

        Raises:
            StaleOwner: another worker owns the run now.
        """
        numbered = await self.writer.commit(change, then)
        for item in change.history:
            self.chat_history.add(item)
        return numbered

    def note_task_waits(self) -> None:
        """Let this process look for the results of tasks that a released run waits for."""
        self._task_waits.on_begun()

    async def note_calls_over(self) -> None:
        """Call ``on_calls_over``, the first time only."""
        if self.on_calls_over is not None:
            on_calls_over, self.on_calls_over = self.on_calls_over, None
            await on_calls_over()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Expect the body to end within ``seconds``; several may run at once. See ``is_within_time``."""
        one = object()
        self._deadlines[one] = time.monotonic() + seconds + MARGIN_S
        try:
            yield
        finally:
            del self._deadlines[one]

    @property
    def is_within_time(self) -> bool:
        """Whether the present work is within its deadline; of concurrent calls the latest deadline counts, because
        one may wait for a thread of another. Safe for any thread."""
        latest = max(self._deadlines.copy().values(), default=None)  # the loop changes them meanwhile
        return latest is None or time.monotonic() < latest

    async def require_go(self) -> None:
        """Wait until the owner may do something that cannot be undone; to be called right before it.

        While it is unknown whether this process still owns the run (it was suspended, or its heartbeats fail), this
        waits for the next heartbeat.

        Raises:
            StaleOwner: another worker owns the run.
            CancelledError: a stop was requested, and the task is about to be cancelled.
        """
        await self.writer.wait_until_writable()
        if self.writer.is_stale:
            raise StaleOwner(self.lease.run_id, self.lease.fence)
        if self.is_stopped:
            raise asyncio.CancelledError

    def release(self, change: Release = DRAINED) -> None:
        """Release the run at the end of its current step; a second call does nothing."""
        self.release_as = self.release_as or change

    def cut(self) -> None:
        """Release the run now, in the middle of its step."""
        self.release()
        self.halt()

    def stop(self) -> None:
        """Stop the work as soon as possible; a second call does nothing."""
        if not self.is_stopped:
            self.is_stopped = True
            self.halt()
