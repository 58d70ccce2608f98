"""Every request that the client makes, and how its answer is read; plain code and event loops share them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from callboard_client.fleet_records import DoctorReport, Observer, Queue, RunCounts, RunFilters, Worker
from callboard_client.records import (
    Agent,
    AgentProblem,
    Approval,
    ApprovalLink,
    ControlledRun,
    Decided,
    Executed,
    LoggedEvent,
    Me,
    Page,
    Record,
    Run,
)
from callboard_client.thread_records import ForkedThread, Message, QueuedMessage, Summary, Thread
from callboard_client.workflow_records import Step, Workflow

T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    """Returns the result, from the decoded body; from None where there is none."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    """JSON data; None: there is no body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_signed: bool = False
    """Whether a client with an envelope key signs it."""
    is_sent_once: bool = False
    """Whether a second request would not get the answer of the first one, which may have been done."""

    @property
    def is_repeatable(self) -> bool:
        """Whether nothing happens twice where the request arrives twice."""
        return not self.is_sent_once and (self.method != "POST" or "Idempotency-Key" in self.headers)

    @property
    def removes(self) -> bool:
        """Whether what is asked for is done where there is nothing any more."""
        return self.method == "DELETE"


# --- runs

Accepted = tuple[str, str, str | None, str | None]
"""An accepted run: its id, its thread's, how another run took the message, and the id of the control by which."""


def start_run(
    agent: str,
    text: str,
    thread_id: str | None,
    detached: bool,
    metadata: Mapping[str, Any] | None,
    if_busy: str | None,
    on_disconnect: str | None,
    priority: str | None,
    version: int | None,
    idempotency_key: str | None,
) -> Call[Accepted]:
    """Accept a run, or a message for an open one."""
    body = {
        "agent": agent,
        "input": text,
        "thread_id": thread_id,
        "metadata": metadata,
        "if_busy": if_busy,
        "on_disconnect": on_disconnect,
        "priority": priority,
        "version": version,
        "detached": detached,
        "wait_s": None if detached else 0,  # the handle waits, not this request
    }
    return _post("/v1/runs", body, _accepted, idempotency_key)


def start_workflow(
    workflow: str,
    data: Mapping[str, Any],
    thread_id: str | None,
    detached: bool,
    metadata: Mapping[str, Any] | None,
    priority: str | None,
    idempotency_key: str | None,
) -> Call[Accepted]:
    """Accept a run of a workflow."""
    body: dict[str, Any] = {"workflow": workflow, "input": data, "thread_id": thread_id, "metadata": metadata}
    body |= {"priority": priority, "detached": detached}
    body |= {"wait_s": None if detached else 0}  # the handle waits, not this request
    return _post("/v1/runs", body, _accepted, idempotency_key)


def repeat_run(run_id: str, verb: str, mode: str, idempotency_key: str | None, **fields: Any) -> Call[Accepted]:
    """Accept a new run that is the ``rerun`` or the ``retry`` of an ended one; ``fields`` are the verb's own."""
    body = {"mode": mode, **fields}
    return _post(f"/v1/runs/{_id(run_id)}/{verb}", body, _accepted, idempotency_key)


def list_runs(filters: RunFilters, sort: str | None, limit: int, before: str | None) -> Call[Page[Run]]:
    return _get("/v1/runs", _page_of("runs", Run), {**filters, "sort": sort, "limit": limit, "before": before})


def count_runs(by: str, filters: RunFilters) -> Call[RunCounts]:
    return _get("/v1/runs/counts", RunCounts.of, {"by": by, **filters})


def list_workers() -> Call[Page[Worker]]:
    return _get("/v1/workers", _page_of("workers", Worker))


def list_queues() -> Call[Page[Queue]]:
    return _get("/v1/queues", _page_of("queues", Queue))


def doctor_report() -> Call[DoctorReport]:
    return _get("/v1/doctor", DoctorReport.of)


def list_observers(name: str | None) -> Call[Page[Observer]]:
    return _get("/v1/observers", _page_of("observers", Observer), {"name": name})


def get_run(run_id: str, why: bool = False) -> Call[Run]:
    return _get(f"/v1/runs/{_id(run_id)}", Run.of, {"why": 1 if why else None})


def delete_run(run_id: str) -> Call[None]:
    return Call(method="DELETE", path=f"/v1/runs/{_id(run_id)}", read=lambda answer: None)


def cancel_run(run_id: str, expected_status: str | None) -> Call[str]:
    """Request a stop; returns the run's state."""
    return _post(
        f"/v1/runs/{_id(run_id)}/cancel", {"expected_status": expected_status}, lambda answer: str(answer["status"])
    )


def control_run(run_id: str, verb: str, expected_status: str | None, **fields: Any) -> Call[ControlledRun]:
    """Request what a verb says, as ``pause``; ``fields`` are the verb's own."""
    body = fields | {"expected_status": expected_status}
    return _post(f"/v1/runs/{_id(run_id)}/{verb}", body, ControlledRun.of)


def signal_run(run_id: str, name: str, data: Any, idempotency_key: str | None) -> Call[ControlledRun]:
    """Give a workflow a signal; ``data`` is the whole body."""
    path = f"/v1/runs/{_id(run_id)}/signals/{_id(name)}"
    return replace(_post(path, {}, ControlledRun.of, idempotency_key), body=data)


def list_steps(
    run_id: str, node: str | None, under: str | None, spans: bool, limit: int, after: str | None
) -> Call[Page[Step]]:
    query = {"node": node, "under": under, "spans": 1 if spans else None, "limit": limit, "after": after}
    return _get(f"/v1/runs/{_id(run_id)}/steps", _page_of("steps", Step), query)


def list_all_approvals(state: str | None, limit: int, before: str | None) -> Call[Page[Approval]]:
    query = {"state": state, "limit": limit, "before": before}
    return _get("/v1/approvals", _page_of("approvals", Approval), query)


def list_approvals(run_id: str) -> Call[list[Approval]]:
    return _get(
        f"/v1/runs/{_id(run_id)}/approvals", lambda answer: [Approval.of(entry) for entry in answer["approvals"]]
    )


def decide(
    run_id: str,
    approval_id: str,
    decision: str,
    arguments: Mapping[str, Any] | None,
    result: Any,
    message: str | None,
    digest: str | None,
    scope: str | None,
    scope_s: int | None,
) -> Call[Decided]:
    body = {"decision": decision, "arguments": arguments, "result": result, "message": message, "digest": digest}
    body |= {"scope": scope, "scope_s": scope_s}
    return _post(f"/v1/runs/{_id(run_id)}/approvals/{_id(approval_id)}", body, Decided.of)


def make_link(run_id: str, approval_id: str, principal: str, expires_in_s: int | None) -> Call[ApprovalLink]:
    body = {"principal": principal, "expires_in_s": expires_in_s}
    return _post(f"/v1/runs/{_id(run_id)}/approvals/{_id(approval_id)}/links", body, ApprovalLink.of)


def follow_run(run_id: str, after: int) -> Call[None]:
    """The stream of the run's events behind a number; it is not read as one answer."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", "Last-Event-ID": str(after)}
    return Call(method="GET", path=f"/v1/runs/{_id(run_id)}/events", read=lambda answer: None, headers=headers)


# --- tools


def execute_tool(
    tool_name: str,
    arguments: Mapping[str, Any] | None,
    agent: str | None,
    timeout_s: float,
    grant: str | None,
    correlation_id: str | None,
    idempotency_key: str | None,
) -> Call[Executed]:
    """Call one tool without an agent's turn."""
    body = {"tool_name": tool_name, "arguments": arguments, "timeout": timeout_s, "grant": grant}
    body |= {"correlation_id": correlation_id, "config": None if agent is None else {"agent_id": agent}}
    return replace(_post("/execute", body, Executed.of, idempotency_key), is_signed=True)


# --- threads


def list_threads(search: str | None, limit: int, before: str | None) -> Call[Page[Thread]]:
    return _get("/v1/threads", _page_of("threads", Thread), {"search": search, "limit": limit, "before": before})


def get_thread(thread_id: str) -> Call[Thread]:
    return _get(f"/v1/threads/{_id(thread_id)}", Thread.of)


def list_messages(thread_id: str, at: str | int | None, after: str | None, limit: int) -> Call[Page[Message]]:
    query = {"at": at, "after": after, "limit": limit}
    return _get(f"/v1/threads/{_id(thread_id)}/messages", _page_of("messages", Message), query)


def list_summaries(thread_id: str, limit: int, before: str | None) -> Call[Page[Summary]]:
    query = {"limit": limit, "before": before}
    return _get(f"/v1/threads/{_id(thread_id)}/summaries", _page_of("summaries", Summary), query)


def create_thread(agent: str | None, title: str | None) -> Call[str]:
    """Create an empty thread; returns its id. The server has no key for it, so it is not sent twice."""
    body = _given({"agent": agent, "title": title})
    return Call(method="POST", path="/v1/threads", read=lambda answer: str(answer["thread_id"]), body=body)


def delete_thread(thread_id: str) -> Call[None]:
    return Call(method="DELETE", path=f"/v1/threads/{_id(thread_id)}", read=lambda answer: None)


def fork_thread(thread_id: str, message: int, new_thread_id: str | None) -> Call[ForkedThread]:
    """Fork a thread. The server has no key for it, so it is not sent twice."""
    body = _given({"message": message, "thread_id": new_thread_id})
    return Call(method="POST", path=f"/v1/threads/{_id(thread_id)}/fork", read=ForkedThread.of, body=body)


def list_queue(thread_id: str, limit: int, after: str | None) -> Call[Page[QueuedMessage]]:
    query = {"limit": limit, "after": after}
    return _get(f"/v1/threads/{_id(thread_id)}/queue", _page_of("queue", QueuedMessage), query)


def edit_queued(thread_id: str, run_id: str, content: str | None, place: str | None) -> Call[ControlledRun]:
    """Change a message that waits. It may have begun before a second request, which would be refused."""
    path, body = _queued(thread_id, run_id), _given({"content": content, "place": place})
    return Call(method="PATCH", path=path, read=ControlledRun.of, body=body, is_sent_once=True)


def remove_queued(thread_id: str, run_id: str) -> Call[None]:
    """Take out a message that waits. A second request would be refused as if it had begun."""
    return Call(method="DELETE", path=_queued(thread_id, run_id), read=lambda answer: None, is_sent_once=True)


# --- who asks, and what happens outside


def who_am_i() -> Call[Me]:
    return _get("/v1/me", Me.of)


def log_event(
    correlation_id: str, event_type: str, source: str, payload: Mapping[str, Any], idempotency_key: str | None
) -> Call[LoggedEvent]:
    body = {"correlation_id": correlation_id, "event_type": event_type, "source": source, "payload": dict(payload)}
    return _post("/events", body, LoggedEvent.of, idempotency_key)


# --- agents


def list_agents() -> Call[Page[Agent]]:
    return _get("/v1/agents", _page_of("agents", Agent))


def agent_problems() -> Call[Page[AgentProblem]]:
    return _get("/v1/agents", _page_of("problems", AgentProblem))


def get_agent(agent_id: str) -> Call[Agent]:
    return _get(f"/v1/agents/{_id(agent_id)}", Agent.of)


# --- workflows


def list_workflows() -> Call[Page[Workflow]]:
    return _get("/v1/workflows", _page_of("workflows", Workflow))


def workflow_problems() -> Call[Page[AgentProblem]]:
    return _get("/v1/workflows", _page_of("problems", AgentProblem))


def get_workflow(workflow_id: str, digest: str | None) -> Call[Workflow]:
    return _get(f"/v1/workflows/{_id(workflow_id)}", Workflow.of, {"digest": digest})


# --- parts of them


def header_text(value: str, what: str) -> str:
    """Return the value if a header can carry it; the error does not repeat it, since it may be a secret."""
    if not value or not value.isascii() or not value.isprintable() or value != value.strip():
        rule = "one or more printable ASCII characters, without line ends, and without spaces around them"
        raise ValueError(f"{what} has to be {rule}.")
    return value


def _get(path: str, read: Callable[[Any], T], query: Mapping[str, Any] | None = None) -> Call[T]:
    return Call(method="GET", path=path, read=read, query=_given(query or {}))


def _post(path: str, body: Mapping[str, Any], read: Callable[[Any], T], key: str | None = None) -> Call[T]:
    """A POST whose key makes a repeated request the same one."""
    key = header_text(key or uuid.uuid4().hex, "an idempotency key")
    return Call(method="POST", path=path, read=read, body=_given(body), headers={"Idempotency-Key": key})


def _accepted(answer: Mapping[str, Any]) -> Accepted:
    return answer["run_id"], answer["thread_id"], answer.get("delivered"), answer.get("control_id")


def _queued(thread_id: str, run_id: str) -> str:
    return f"/v1/threads/{_id(thread_id)}/queue/{_id(run_id)}"


def _page_of(name: str, kind: type[R]) -> Callable[[Any], Page[R]]:
    return lambda answer: Page((kind.of(entry) for entry in answer[name]), answer.get("next"))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _id(value: str) -> str:
    """Return an id as a part of a path; an empty one, or one of dots, would name another address."""
    if value in ("", ".", ".."):
        raise ValueError(f"'{value}' is not an id.")
    return quote(value, safe="")
