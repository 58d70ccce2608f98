"""A run that is about to be accepted, and the rows that are written of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from bus.identity.audit.recording import acting_with
from bus.identity.credentials.grants import Grant, PresentedGrant
from bus.journal.idempotency import IdempotencyKey
from bus.journal.mailbox.busy import IfBusy
from bus.journal.records.parent import Parent
from bus.journal.records.recorded_calls import Origin
from bus.journal.records.steps import AGENT, TOOL, WORKFLOW, NewCall
from bus.journal.states.queue_order import priority_number
from bus.journal.version import OF_KIND, WITH_ORIGIN
from bus.payloads import StatusPayload
from bus.sealing import Original
from config.clock import stamp
from config.identity.contexts import DeclaredContext
from config.identity.principal import LOCAL, Principal
from config.ids import new_id
from config.text.stored_texts import has_secret
from config.tracing import current_correlation_id, current_span_id, current_trace_id, is_correlation_id, new_trace_id

MOST_WORDS = 20
"""Values of an object or a list that a title names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRun:
    """What a client and the agent's definition give to a new run."""

    objective: str
    agent_id: str
    agent_name: str
    definition_digest: str
    definition_json: str
    """The agent's definition as JSON. It is stored by its digest, so the run keeps it when the file changes."""
    model: str
    observers: tuple[str, ...]
    thread_id: str | None = None
    """The client's own name for the thread; None makes a new thread."""
    new_thread_id: str | None = None
    """With which id it makes one: the version of the agent was chosen for it; None: with any."""
    principal: Principal = LOCAL
    """Whom the run, and a new thread, belong to."""
    is_private: bool = False
    """Whether only its principal and admins see the run and, from now on, its thread."""
    detached: bool = False
    queue: str | None = None
    """The queue that its agent names; None is the deployment's."""
    grant: PresentedGrant | None = None
    """With which the run is privileged."""
    call: NewCall | None = None
    """The one call of a run of kind ``tool``; None: the run is an agent's turn, or a workflow."""
    input: Mapping[str, Any] | None = None
    """What a workflow is started with; None: the run is no workflow."""
    declared: DeclaredContext | None = None
    """What its entry point declares of it; None: nothing, as an earlier release."""
    metadata: Mapping[str, Any] | None = None
    labels: Collection[str] = ()
    """What its message or input is, for policies; its thread has them too from now on."""
    body: Mapping[str, Any] | None = None
    """Of a workflow: the items of a FOR_EACH on which it works, in place of the whole graph."""
    idempotency: IdempotencyKey | None = None
    parent: Parent | None = None
    """Of a child run: whose it is."""
    origin: Origin | None = None
    """The run whose recorded steps it continues from."""
    redo: frozenset[str] = frozenset()
    """Of a workflow with an origin: the paths of the nodes that it makes again."""
    originals: Sequence[Original] = field(default=(), repr=False)
    """What guardrails removed something from, to be sealed."""
    if_busy: IfBusy | None = None
    """What becomes of it where the thread has an open run; None: what the agent's definition says."""
    agent_if_busy: IfBusy = "enqueue"
    """What the agent's definition says."""
    on_waiting: str | None = None
    """What its thread does while it waits for a person: ``aside`` or ``withdraw``; None: the thread waits too."""
    on_disconnect: str | None = None
    """What becomes of it without viewers, as ``stop:30``; None: it continues. A child run is its parent's to stop."""
    priority: str = "normal"
    """Before which queued runs of its tenant and queue it begins. A child run has its parent's."""

    @property
    def kind(self) -> str:
        if self.input is not None:
            return WORKFLOW
        return AGENT if self.call is None else TOOL

    @property
    def title(self) -> str:
        """The text that lists show the beginning of; of a workflow its name, and the first text of its input or all."""
        if self.input is None or self.body is not None:
            return self.objective
        text = next((value for value in self.input.values() if isinstance(value, str) and value), _words(self.input))
        return f"{self.agent_name}: {text}" if self.input else self.agent_name


def _words(value: Any, depth: int = 3) -> str:
    """Return data as a person would say it: ``cities Paris, Oslo``."""
    if isinstance(value, bool | None):
        return {True: "yes", False: "no", None: "none"}[value]
    if not isinstance(value, Mapping | list):
        return str(value)
    if depth == 0:
        return "…"
    named = value.items() if isinstance(value, Mapping) else (("", each) for each in value)
    return ", ".join(f"{name} {_words(each, depth - 1)}".lstrip() for name, each in islice(named, MOST_WORDS))


def run_row(
    new: NewRun, grant: Grant | None, title: str, thread_key: int, thread_id: str, turn: int, is_private: bool
) -> dict[str, Any]:
    return {
        "id": new_id("run"),
        "thread_key": thread_key,
        "thread_id": thread_id,
        "turn": turn,
        "tenant": new.principal.tenant,
        "principal": new.principal.id,
        **rights_of(new),
        "grant_id": grant.id if grant is not None else None,
        "trace_id": current_trace_id() or new_trace_id(),
        "parent_span": current_span_id() if current_trace_id() is not None else None,
        "private": is_private,
        "kind": new.kind,
        "agent_id": new.agent_id,
        "agent_name": new.agent_name,
        "definition_digest": new.definition_digest,
        "model": new.model,
        "title": title,
        "detached": new.detached,
        "queue": new.queue,
        "priority": priority_number(new.priority),
        "on_waiting": new.on_waiting,
        "observers_json": orjson.dumps(new.observers).decode(),
        **_columns_of(new.metadata or {}),
        "labels_json": names_json(new.labels),
        **(new.parent.columns() if new.parent is not None else {}),
        "journal": max(OF_KIND[new.kind], 0 if new.origin is None else WITH_ORIGIN),
        "origin_id": new.origin.run_id if new.origin is not None else None,
        "origin_json": new.origin.to_json() if new.origin is not None else None,
    }


def rights_of(new: NewRun) -> dict[str, str | None]:
    """Return the columns that say with which rights a run acts, and what its entry point declares."""
    credential, credential_id = acting_with.get()
    return {
        "roles_json": names_json(new.principal.roles),
        "agents_json": None if new.principal.agents is None else names_json(new.principal.agents) or "[]",
        "credential": credential,
        "credential_id": credential_id[:64] or None,
        "context_json": new.declared.to_json() if new.declared is not None else None,
    }


def message_row(new: NewRun, run: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    fields: dict[str, Any] = {} if new.call is None else new.call.message_fields()
    fields |= {"input": dict(new.input)} if new.input is not None else {}
    fields |= {"body": dict(new.body)} if new.body is not None else {}
    return {
        "thread_key": run["thread_key"],
        "number": run["turn"],
        "turn": run["turn"],
        "run_id": run["id"],
        "id": new_id("msg"),
        "role": "user",
        "data_json": orjson.dumps({"content": new.objective, **fields}).decode(),
        "partial": False,
        "created_ms": now_ms,
    }


def first_event(new: NewRun, run: Mapping[str, Any], grant: Grant | None, now_ms: int) -> StatusPayload:
    context = None if new.declared is None else new.declared.golden(new.principal.id, run["trace_id"]).as_json()
    return StatusPayload(
        seq=1,
        at=stamp(now_ms),
        status="queued",
        agent=new.agent_id,
        privilege=_privilege(grant) if grant is not None else None,
        context=context,
        trace_id=run["trace_id"],
        correlation_id=run["correlation_id"] or run["trace_id"],
    )


def _privilege(grant: Grant) -> dict[str, str]:
    """Return what the run's log says of its grant."""
    facts = {"grant_id": grant.id, "by": grant.issued_by, "reason": grant.reason}
    return facts | {"expires_at": stamp(grant.expires_ms)}


def names_json(roles: Collection[str]) -> str | None:
    return orjson.dumps(sorted(roles)).decode() if roles else None


def _columns_of(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a run's metadata, and its correlation id: the one in it (anything may have that name there).

    A run that another run, or a request without one, started has the one of these.
    """
    candidate = metadata.get("correlation_id", current_correlation_id())
    correlation_id = candidate if is_correlation_id(candidate) and not has_secret(candidate) else None
    metadata_json = orjson.dumps(dict(metadata)).decode() if metadata else None
    return {"metadata_json": metadata_json, "correlation_id": correlation_id}
