"""The state of a run in its owner's memory: history, observers, writer, and whether a stop was requested."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from agents.errors import TOO_MANY_QUESTIONS
from agents.governance.engine.governance import Governance, governance_of
from agents.governance.guardrails.guardrails import UNGUARDED, Guardrails, Seal
from agents.mailbox.inbox import Inbox
from agents.prompt import Window
from agents.run_contexts import RunContexts, contexts_of
from agents.tools.isolation.sandbox import Quota
from agents.tools.requests import Sample
from agents.tools.spans.collector import collecting
from agents.tools.tool import Tool
from bus.journal import Journal
from bus.journal.clients import STOP
from bus.journal.errors import ControlsChanged, StaleOwner
from bus.journal.owner import (
    DRAINED,
    Commit,
    ControlRequest,
    Lease,
    Past,
    Release,
    RunWriter,
    StickyApproval,
    Took,
    Totals,
)
from bus.loop import ProcessLoop
from bus.payloads import EndPayload, Payload
from bus.sealing import Original, sealer_of
from config.clock import epoch_ms
from config.effects import Classification, Effect
from config.errors import CallboardError, Retryable
from config.identity.contexts import GoldenContext, SecurityContext
from config.identity.folders import sandbox_folder
from config.policy_decision import ALLOW_ALL, CallFacts, Policy
from config.redaction.redacted_data import cleaned_data
from config.settings import Settings
from observers.base import AgentObserver, facts_of
from observers.invoker import ObserverInvoker


class Spending:
    """What one run has used so far."""

    def __init__(self, ended: Totals | None = None) -> None:
        """``ended``: what earlier owners used."""
        self._ended = ended or Totals()
        self._open: Callable[[], Totals] = Totals
        self.rounds_left: int | None = None
        """Rounds with tools that its child runs may use, the present one included; None: nothing limits them."""

    @property
    def total(self) -> Totals:
        """What it has used, including the step that is open."""
        return self._ended.plus(self._open())

    def add(self, spent: Totals) -> None:
        """Count what was used beside the open step."""
        self._ended = self._ended.plus(spent)

    def begin(self, steps: int, so_far: Callable[[], Totals] = Totals) -> None:
        """Count the start of steps, and what the open one was before; ``so_far`` returns what they have used."""
        self._ended, self._open = self.total.plus(Totals(steps=steps)), so_far

    def resume(self, so_far: Callable[[], Totals]) -> None:
        """Count what a step uses that an earlier owner began."""
        self._open = so_far


log = logging.getLogger(__name__)

MARGIN_S = 30.0
"""Seconds that a step may take beyond its own limit, for commits and threads on a busy machine."""


class RunContext:
    """One owner's state of one run, from the claim to the run's end or release."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        observers: Sequence[AgentObserver] = (),
        chat_history: Window | None = None,
        *,
        contexts: RunContexts | None = None,
        policy: Policy = ALLOW_ALL,
        guardrails: Callable[[Seal | None], Guardrails] | None = None,
        spending: Spending | None = None,
        sampling: Callable[[RunContext], Sample] | None = None,
        sticky: Iterable[StickyApproval] = (),
        on_cleared: Callable[[], object] = lambda: None,
    ) -> None:
        """``guardrails`` and ``sampling`` make what they are named after, for this context. ``on_cleared`` is called
        when the tool calls that the run is suspected of have ended. Without the rest, no agent works on the run.
        """
        self._journal = journal
        self.lease = lease
        self._claimed_s = time.monotonic()
        self.contexts = contexts or contexts_of(lease, journal.settings)
        self.chat_history = chat_history if chat_history is not None else Window(Past(items=[]), 0)
        """The newest part of the conversation that fits the agent's ``history_chars``, this run's messages included."""
        agent_facts, run_facts = facts_of(lease, lease.run_id, lease.metadata)
        self._deliver = partial(ObserverInvoker(observers).agent_on_response, run_facts, agent_facts)
        self.writer: RunWriter = journal.owner.writer(lease, self.notify)
        self.policy = policy
        """Decides about each call of a model or a tool."""
        seal = self._seal if sealer_of(journal.settings) is not None else None
        self.guardrails = guardrails(seal) if guardrails is not None else UNGUARDED
        self.governance: Governance | None = governance_of(
            journal.settings, lease, lease.run_id, self.golden, self.security
        )
        """Asks the remote engine about each call; None where the deployment has none."""
        self.spending = spending if spending is not None else Spending()
        self.sample = sampling(self) if sampling is not None else None
        """Asks the run's model for a tool."""
        self.sticky = tuple(sticky)
        """The sticky approvals for the run's principal and agent, as they were read last."""
        self.labels = set(lease.labels)
        """What the run has read so far, as the labels of its tools."""
        self.end: EndPayload | None = None
        """The run's last event, once it is committed."""
        self.inbox = Inbox(journal, lease, self.save, self.guardrails)
        """What clients have requested of the run."""
        self._deadlines: dict[object, float] = {}
        self._work: asyncio.Task[None] | None = None
        self._on_cleared: Callable[[], object] | None = on_cleared if lease.can_be_cleared else None

    @property
    def settings(self) -> Settings:
        return self._journal.settings

    @property
    def loop(self) -> ProcessLoop:
        return self._journal.loop

    @property
    def golden(self) -> GoldenContext | None:
        """None: no tool may be called."""
        return self.contexts.golden

    @property
    def security(self) -> SecurityContext | None:
        """None: the run may not be worked on."""
        return self.contexts.security

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
        lease, totals = self.lease, self.spending.total
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

    async def read_sticky(self, tools: Iterable[Tool | None]) -> None:
        """Read the sticky approvals anew, where one of these tools may have some."""
        lease = self.lease
        if may_be_sticky(self.policy, tools):
            ours = lease.tenant, lease.principal, lease.agent_id, lease.definition_digest
            self.sticky = await self.loop.read(self._journal.stores.sticky_approvals.valid_of, *ours)

    async def wall_clock_ms(self) -> int:
        """Return now in ms since 1970 by the database's clock, which no worker's clock changes; by this machine's clock
        where the database does not answer."""
        try:
            return await self._journal.owner.wall_clock_ms()
        except Retryable:
            return epoch_ms()

    async def require_may_ask(self, count: int) -> None:
        """Return unless the runs of the principal would ask more questions within an hour than they may.

        Raises:
            TOO_MANY_QUESTIONS: they would.
        """
        limit = self.settings.questions_per_hour
        if limit == 0 or count == 0:
            return
        count_lately = await self.loop.read(
            self._journal.readers.runs.asked_lately, self.lease.tenant, self.lease.principal, limit
        )
        if count_lately + count > limit:
            raise TOO_MANY_QUESTIONS(principal=self.lease.principal, asked=count_lately, limit=limit)

    async def wait_expiry_ms(self) -> int:
        """Return when a wait that begins now expires, in ms since 1970 by the database's clock."""
        return await self._journal.owner.wall_clock_ms() + self.settings.approval_ttl_s * 1000

    def _seal(self, what: str, original: Any) -> None:
        """Seal with the next commit what a guardrail removes something from."""
        sealer = sealer_of(self.settings)
        if sealer is not None:
            self.writer.originals.append(Original(what=what, value=original, sealer=sealer))

    def notify(self, payload: Payload) -> None:
        """Deliver an event to every observer."""
        if isinstance(payload, EndPayload):
            self.end = payload
        self._deliver(payload)

    async def save(self, change: Commit, then: Callable[[], object] = lambda: None) -> list[Payload]:
        """Commit events, steps and history together, and add the history to this context's.

        ``then`` is called once they are committed, also where a stop cancels the caller meanwhile.

        Raises:
            StaleOwner: another worker owns the run now.
        """
        numbered = await self.writer.commit(change, then)
        for item in change.history:
            self.chat_history.add(item)
        if self.inbox.unread:
            self.inbox.committed(numbered)
        return numbered

    async def save_end(self, change: Commit) -> None:
        """Commit the run's end with an answer to each control that has arrived; see ``Inbox.end``.

        Raises:
            ControlsChanged: the run has succeeded, and a text for its model has arrived.
        """
        if not self.inbox.unread:
            with suppress(ControlsChanged):  # one arrived since
                await self.save(change)
                return
        await self.inbox.end(change)

    def note_task_waits(self) -> None:
        """Let this process look for the results of tasks that a released run waits for."""
        self._journal.owner.task_waits.look_soon()

    async def note_calls_over(self) -> None:
        """Suspect the run less, once: the tool calls during which its owners crashed have ended."""
        if self._on_cleared is None:
            return
        on_cleared, self._on_cleared = self._on_cleared, None
        try:
            is_noted = await self._journal.owner.clear_suspect(self.lease)
        except CallboardError as error:
            log.warning("suspect stays in quarantine until it ends run_id=%s: %s", self.lease.run_id, error)
            return
        if is_noted:
            on_cleared()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Expect the body to end within ``seconds``; several may run at once. See ``is_within_time``."""
        deadline = object()
        self._deadlines[deadline] = time.monotonic() + seconds + MARGIN_S
        try:
            yield
        finally:
            del self._deadlines[deadline]

    @contextmanager
    def keeping_spans(self, keep: Callable[[list[Mapping[str, Any]]], None]) -> Iterator[None]:
        """Give ``keep`` the HTTP requests, statements and file operations of the body, if there are any, also if it
        fails; what guardrails replace is replaced. Where the settings say so, nothing is kept.
        """
        if not self.settings.spans:
            yield
            return
        with collecting() as collector:
            try:
                yield
            finally:
                spans = collector.close()
                if spans:
                    keep(cleaned_data(self.guardrails.scan, spans, []))

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
        if self.inbox.is_stopped and not self.inbox.is_ending:
            raise asyncio.CancelledError

    def release(self, change: Release = DRAINED) -> None:
        """Release the run at the end of its current step; a second call does nothing."""
        self.inbox.release(change)

    def receive(self, request: ControlRequest) -> None:
        """Take what a client requested of the run."""
        self.inbox.receive(request)
        if request.kind == STOP.kind:
            self.stop()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin the work on the run; a stop, a cut and the loss of the run cancel it."""
        self._work = asyncio.create_task(work, name=f"run {self.lease.run_id}")
        self.writer.on_lost = self._work.cancel
        return self._work

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def cut(self) -> None:
        """Release the run now, in the middle of its step."""
        self.release()
        self._cancel()

    def stop(self) -> None:
        """Stop the work as soon as possible; a second call does nothing."""
        if not self.inbox.is_stopped and not self.inbox.is_ending:
            self.inbox.is_stopped = True
            self._cancel()


def may_be_sticky(policy: Policy, tools: Iterable[Tool | None]) -> bool:
    """Return whether there may be sticky approvals for one of these tools."""
    known_tools = [tool for tool in tools if tool is not None]
    return bool(known_tools) and (policy.offers_sticky or any(tool.sticky for tool in known_tools))
