"""Responses of the calls: JSON without nulls; and the start of a run, as this design and earlier ones share it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response, url_for

from agents.errors import INPUT_EMPTY, INPUT_TOO_LARGE, WORKFLOW_MISSED, AgentUnknown
from agents.governance.guardrails.errors import INPUT_BLOCKED
from bus.identity.errors import AGENT_FORBIDDEN
from bus.journal.errors import IDEMPOTENCY_CONFLICT, THREAD_BUSY, THREAD_OF_OTHER_AGENT, TOO_MANY_RUNS, ThreadUnknown
from config.database.errors import DatabaseBusy, DatabaseUnreachable
from config.definitions.errors import DefinitionInvalid
from config.tracing import correlate
from web.auth.authentication import current_principal
from web.calls.fields import Input
from web.calls.parameters import Repeatable
from web.errors import Overloaded
from web.process import current_process

if TYPE_CHECKING:
    from agents.handle import RunHandle
    from bus.journal.readers import Line


log = logging.getLogger(__name__)

SMALL_CHARS = 16 * 1024
"""A run with a shorter output is read without a slot for large work."""


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(orjson.dumps(body), status, named, content_type="application/json")


def end_of(handle: RunHandle, wait_s: float) -> tuple[Line | None, bool]:
    """Return an accepted run's end, or None if it takes longer; and whether the request waited.

    It does not where too many requests wait: the caller needs the id of its run.
    """
    process, tenant = current_process(), current_principal().tenant
    work = partial(process.journal.readers.wait, tenant, handle.run_id, handle.thread_id)
    try:
        return process.wait(tenant, wait_s, work), True
    except Overloaded:
        return None, False


def accepted(handle: RunHandle, *, has_waited: bool = False, **headers: str) -> Response:
    """Return 202 with the addresses of an accepted run, which is as a look at it says unless it is new."""
    status = "queued" if handle.is_new and not has_waited else status_of(handle)
    events_url = url_for("events.of_run", run_id=handle.run_id)
    facts = {"run_id": handle.run_id, "thread_id": handle.thread_id, "status": status, "events_url": events_url}
    delivery = handle.delivery
    if delivery.run_id is not None:
        facts["delivered"] = delivery.delivered
        facts |= {"control_id": delivery.control_id} if delivery.control_id is not None else {}
    return answer(facts, 202, Location=url_for("runs.one", run_id=handle.run_id), **headers)


@contextmanager
def run_with_questions(run_id: str) -> Iterator[dict[str, Any]]:
    """Yield a run with its open questions; a large one within a slot for large work.

    Raises:
        RunUnknown: there is none, or the caller does not see it.
    """
    process, principal = current_process(), current_principal()
    with process.measuring():
        small = process.journal.readers.runs.get_small(principal, run_id, SMALL_CHARS)
    if small is not None:
        yield small
        return
    with process.large_work():
        yield process.journal.readers.runs.get(principal, run_id)


def status_of(handle: RunHandle) -> str:
    """Return an accepted run's state, or ``queued`` if the database does not answer: it is accepted all the same."""
    try:
        return handle.status()
    except (DatabaseBusy, DatabaseUnreachable) as error:
        log.warning("answered without the run's state: %s", error, extra={"run_id": handle.run_id})
        return "queued"


STARTING = (
    *(AgentUnknown, AGENT_FORBIDDEN, DefinitionInvalid, INPUT_BLOCKED, INPUT_EMPTY, INPUT_TOO_LARGE),
    *(THREAD_BUSY, THREAD_OF_OTHER_AGENT, ThreadUnknown, IDEMPOTENCY_CONFLICT, TOO_MANY_RUNS, WORKFLOW_MISSED),
)
"""The errors of a start."""


def agent_of_thread(thread_id: str) -> str:
    """Return the id of the agent of the caller's thread, which may have been handed over; of a new one the default."""
    process = current_process()
    try:
        return process.journal.readers.threads.agent_of(current_principal(), thread_id)
    except ThreadUnknown:
        return process.settings.default_agent


def start_run(
    message: str,
    agent_id: str | None,
    body: Input,
    headers: Repeatable,
    *,
    metadata: Mapping[str, Any] | None = None,
    version: int | None = None,
    **options: Any,
) -> RunHandle:
    """Accept a run for the caller; without an agent that of the thread, or of a new thread the default one.

    ``version``: this one of the agent, in place of what serves. ``body`` and ``headers`` are the request's: a repeated
    request with the same key gets the same run. ``options`` are those of ``Runner.run``.
    """
    process, thread_id = current_process(), options.get("thread_id")
    if agent_id is None:
        agent_id = process.settings.default_agent if thread_id is None else agent_of_thread(thread_id)
    registry = process.runner.registry
    agent = agent_id if version is None else registry.version_for(current_principal(), agent_id, version)
    return process.runner.run(message, agent, **_request(body, headers, metadata), **options)


def start_workflow(
    data: Mapping[str, Any],
    workflow_id: str,
    body: Input,
    headers: Repeatable,
    *,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> RunHandle:
    """Accept a run of a workflow for the caller; for the rest see ``start_run``."""
    return current_process().runner.run_workflow(workflow_id, data, **_request(body, headers, metadata), **options)


def _request(body: Input, headers: Repeatable, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a start has of its request; log records have the correlation id in the metadata from now on."""
    correlate((metadata or {}).get("correlation_id"))
    return {"principal": current_principal(), "metadata": metadata, "idempotency": headers.idempotency(body)}
