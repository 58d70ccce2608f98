"""A lease: a claimed run as its owner sees it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bus.journal.records.recorded_calls import RecordedCalls, RecordedNodes
from bus.journal.states.crashes import SUSPECT_AFTER
from bus.payloads import Payload
from config.identity.principal import Principal, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A claimed run as its owner sees it: the run's row, its fence, and the event numbers reserved for it."""

    run_id: str
    kind: str
    """``agent`` or ``tool`` (``bus.journal.records.steps``)."""
    thread_id: str
    thread_key: int
    turn: int
    tenant: str
    principal: str
    roles: frozenset[Role]
    """With which its principal started it, as far as it has them now."""
    agents: frozenset[str] | None
    """The agents for which its credential is; None: all."""
    is_disabled: bool
    """Whether its principal is disabled now."""
    privileged_for_ms: int | None
    """For how long it is privileged yet, by the grant that it was started with; None: it is not."""
    labels: frozenset[str]
    """What it has read so far, as its tools label it, and what its thread had read before."""
    agent_id: str
    agent_name: str
    definition_digest: str
    handed_from_json: str | None
    """The agents that worked on it before, in order, as JSON; None: none."""
    queue: str | None
    """The queue named in its agent's definition; None is the deployment's default queue."""
    model: str
    observers: tuple[str, ...]
    detached: bool
    metadata: Mapping[str, Any]
    title: str
    owner: str
    fence: int
    next_seq: int
    reserved_to: int
    stop_requested: bool
    created_ms: int
    age_ms: int
    """Milliseconds from its acceptance to the claim."""
    steps: int
    crashes: int
    """Owners lost before this one."""
    is_suspect: bool
    """Whether its next crash ends it if it is alone, so that no other suspect may share its process."""
    must_be_alone: bool
    """Whether it is a suspect whose process no other run may share."""
    commits: int
    """Number of commits by its earlier writers; the next writer counts from here."""
    journal: int
    """The version of its journal's format (``bus.journal.version``)."""
    trace_id: str | None
    """None: an earlier release started it."""
    correlation_id: str | None
    """The one that a client chose for it; None: the trace id takes its place."""
    credential: str | None
    """The kind of the credential that started it; None: an earlier release started it."""
    credential_id: str | None
    context_json: str | None
    """What its entry point declared of it (``config.identity.contexts``); None: an earlier release started it."""
    work_ms: int | None
    """Milliseconds for which its earlier owners worked on it; None: an earlier release began it."""
    private: bool = False
    """Whether only its principal and admins see it."""
    parent_id: str | None = None
    """The run that delegated it; None: no run did."""
    budget_json: str | None = None
    """What a child run may use of its parent's limits (``max_rounds``); None: all of its own agent's."""
    origin_json: str | None
    """Which run it continues from, and how (``bus.journal.records.recorded_calls``); None: it is a run by itself."""
    recorded: RecordedCalls | RecordedNodes | None
    """The outcomes that its calls get in place of being made; None: they are made."""
    undelivered: tuple[Payload, ...]
    """Events written without an owner since the last one; this owner delivers them to observers first."""
    first_events: tuple[Payload, ...]
    """Events that the claim committed; this owner delivers them to observers."""

    @property
    def starter(self) -> Principal:
        """Its principal, with the roles of now and the agents of the credential: who starts its children."""
        return Principal(tenant=self.tenant, id=self.principal, roles=self.roles, agents=self.agents)

    @property
    def max_rounds(self) -> int | None:
        """Most rounds with tools that its parent had left for it; None: no parent limits it."""
        return orjson.loads(self.budget_json).get("rounds") if self.budget_json is not None else None

    @property
    def can_be_cleared(self) -> bool:
        """Whether it is less suspected once the tool calls of its crashes are completed."""
        return self.is_suspect and (self.crashes == SUSPECT_AFTER or self.must_be_alone)

    def work_ms_of_all(self, claimed_s: float) -> int | None:
        """Return for how long its owners worked, this one since ``claimed_s`` (monotonic); None as ``work_ms``."""
        return None if self.work_ms is None else self.work_ms + round((time.monotonic() - claimed_s) * 1000)
