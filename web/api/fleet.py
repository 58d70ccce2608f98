"""The fleet: `/metrics` for Prometheus; and counts of runs, workers, queues and the last day's numbers for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from flask import Blueprint, Response, request
from pydantic import Field

from bus.identity.access import may_see_machines, require_may_read_metrics, worker_id_for
from bus.identity.errors import FORBIDDEN, forbidden
from config.clock import stamp
from config.identity.principal import Principal, Verb
from web.api.answers import answer
from web.api.health import redis_state
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Moment
from web.calls.run_filters import RunFilters
from web.process import WebProcess, current_process
from web.schemas.observer import ObserverList

metrics = Blueprint("metrics", __name__)
fleet = Blueprint("fleet", __name__)


@metrics.get("/metrics")
@call({200: {"text/plain": str}}, problems=(FORBIDDEN,))
def scrape() -> Response:
    """Return the metrics in the form that `Accept` asks for: Prometheus's text, or OpenMetrics.

    For principals of the tenant `default` with a role that sees the runs of others.
    """
    from observers.metrics.exposition import Exposition  # the first request opens the journal

    require_may_read_metrics(current_principal())
    process = current_process()
    exposition = Exposition(process.journal.database, lambda: _own(process))
    body, content_type = exposition.text(request.accept_mimetypes.to_header())
    return Response(body, content_type=content_type)


def _own(process: WebProcess) -> Mapping[str, Any]:
    values = process.requests.values(len(process.hub.viewers))
    redis = redis_state(process)
    return values if redis == "none" else {**values, "redis_up": {(): float(redis == "ok")}}


# --- counts of runs

By = Literal["status", "agent", "code", "queue", "owner", "node"]


class WhichCounts(RunFilters):
    """What to count, and by what."""

    by: By = Field(examples=["status"])
    """``code``: the runs that failed, by the code of their error; within the last 24 hours, unless ``since`` says
    otherwise. ``node``: the open runs of workflows by the nodes that are under way, with ``agent`` those of one."""


class AgentCount(Answer):
    """How many of the runs are an agent's."""

    agent: str
    count: int


class RunGroup(Answer):
    """The runs with one value."""

    value: str
    """The status, the id of the agent, the code, the name of the queue, the principal, or the id of the node."""
    count: int
    latest_run_id: Maybe[str] = None
    """By ``code``: the run that failed last."""
    latest_at: Maybe[str] = None
    """By ``code``: when it failed."""
    agents: Maybe[list[AgentCount]] = None
    """By ``code``: the ten agents with the most of these runs."""


class OtherGroups(Answer):
    """The groups that are not listed."""

    groups: int
    count: int
    """Their runs."""


class RunCounts(Answer):
    """How many runs there are."""

    by: By
    total: int
    """The runs of all groups."""
    groups: list[RunGroup]
    """The largest ones first, at most 100."""
    rest: Maybe[OtherGroups] = None
    """Absent where all are listed."""


@fleet.get("/v1/runs/counts")
@call({200: RunCounts})
def run_counts(query: WhichCounts) -> Response:
    """Count the runs that you see, with the filters of their list."""
    process = current_process()
    filters = query.filters(process.settings.queue)
    with process.large_work():
        return answer(process.journal.readers.runs.counts(current_principal(), query.by, **filters))


# --- what happened within a day


class SlotOfDay(Answer):
    """What was counted in one step of time."""

    at: str
    """When it begins, UTC."""
    started: int
    """Runs that were accepted."""
    runs: dict[str, int]
    """Runs that ended, by status."""
    first_token_p50_s: Maybe[float] = None
    """Median of the time from a model call's start to its first piece of text; absent where there was none."""
    first_token_p95_s: Maybe[float] = None
    input_tokens: int
    output_tokens: int
    """Of the runs that ended."""
    cost_usd: float
    tool_calls: dict[str, int]
    """Calls of tools that ended, by outcome."""


class MetricRows(Answer):
    """The last day at most, step by step; steps in which nothing was counted are left out."""

    rows: list[SlotOfDay]
    slot_s: int
    """How long a step is, in seconds."""
    first_token_p50_s: Maybe[float] = None
    """Of all rows."""
    first_token_p95_s: Maybe[float] = None
    is_fed: bool
    """Whether a process feeds the observer `metrics` now, which counts."""
    detail: Maybe[str] = None
    """Where none does: how to start one."""


class WhichRows(Input):
    """Since when."""

    since: Maybe[Moment] = None
    """A time, or a length back from now, of at most a day: ``1h``; absent: a day."""
    step: Literal["1m", "5m", "15m", "1h"] = "1m"
    """The time of one row."""


STEPS_S = {"1m": 60, "5m": 300, "15m": 900, "1h": 3600}
NOT_FED = (
    "no process feeds the observer `metrics`, so nothing is counted: start one with `./callboard observe metrics`, or "
    "workers with CALLBOARD_OBSERVE=metrics."
)


@fleet.get("/v1/metrics")
@call({200: MetricRows}, problems=(FORBIDDEN,))
def metric_rows(query: WhichRows) -> Response:
    """Return what the observer `metrics` has counted, over all tenants, in steps of a minute or more.

    For principals of the tenant `default` with a role that sees the runs of others.
    """
    from bus.journal.tailing import observer_states, slot_sums  # the first request opens the journal
    from observers.metrics.names import DAY_MS, rows_of_slots

    require_may_read_metrics(current_principal())
    process, step_s = current_process(), STEPS_S[query.step]
    with process.large_work(), process.journal.database.read() as connection:
        sums = slot_sums(connection, query.since if query.since is not None else -DAY_MS, step_s * 1000)
        is_fed = any(state.name == "metrics" and state.state == "running" for state in observer_states(connection))
    return answer(rows_of_slots(sums) | {"slot_s": step_s, "is_fed": is_fed} | ({} if is_fed else {"detail": NOT_FED}))


# --- workers and queues


class ListedWorker(Answer):
    """A worker process. From ``host`` on for principals who may know of machines."""

    worker_id: str
    """For other principals a name of its own, which says nothing about its machine."""
    state: Literal["alive", "draining", "lost"]
    """``draining``: it takes no more runs. ``lost``: it renews its row no more, and has not deleted it at an exit; its
    runs are requeued when their leases have expired."""
    pool: str
    slots: int
    """Runs that it works on at once, at most."""
    busy: int
    """Runs that it works on, or worked on when it renewed its row last."""
    started_at: str
    seen_at: str
    seen_s: float
    """Seconds since it renewed its row."""
    host: Maybe[str] = None
    pid: Maybe[int] = None
    queues: Maybe[list[str]] = None
    version: Maybe[str] = None
    cpu_share: Maybe[float] = None
    """How much of one processor it uses, 0 to 1."""
    memory_share: Maybe[float] = None
    """How much of the memory of its container or machine it uses."""
    missing_keys: Maybe[dict[str, list[str]]] = None
    """Variables of models' keys that are not set in it, with the agents that need them."""
    dropped: Maybe[dict[str, int]] = None
    """Payloads that were dropped because an observer was too slow for them, by observer."""
    abandoned: Maybe[dict[str, int]] = None
    """Calls that it gave up and that have not ended, by tool."""
    mcp_servers: Maybe[dict[str, dict[str, Any]]] = None
    """How each MCP server is in it."""


class WorkerList(Answer):
    """The workers that renewed their rows within an hour, the oldest first, at most 500."""

    workers: list[ListedWorker]


_SHARED = "state pool slots busy started_at seen_at seen_s".split()
_OF_MACHINES = "host pid version cpu_share memory_share missing_keys dropped abandoned mcp_servers".split()


@fleet.get("/v1/workers")
@call({200: WorkerList})
def workers() -> Response:
    """List the workers. Principals who may not know of machines get their states and slots."""
    process, principal = current_process(), current_principal()
    rows = process.journal.stores.workers.listed()
    return answer({"workers": [_worker(row, process.settings.queue, principal) for row in rows]})


def _worker(row: Mapping[str, Any], default_queue: str, principal: Principal) -> dict[str, Any]:
    shared = {"worker_id": worker_id_for(principal, row["worker_id"])} | {name: row[name] for name in _SHARED}
    if not may_see_machines(principal):
        return shared
    facts = {name: row[name] for name in _OF_MACHINES if row[name] is not None}
    return {**shared, **facts, "queues": row["queues"] or [default_queue]}


class ListedQueue(Answer):
    """A queue of runs."""

    queue: str
    queued: int
    """Runs that wait in it: all, or for principals who may not know of machines those that they see."""
    oldest_s: Maybe[float] = None
    """Seconds since the oldest of them was accepted."""
    tenants: Maybe[dict[str, int]] = None
    """The twenty tenants with the most of them; for principals who may know of machines."""
    owners: Maybe[dict[str, int]] = None
    """The twenty principals with the most of them; for the others."""
    workers: int
    """Living workers that serve it and do not drain."""
    slots: int
    busy: int
    """Of these workers' slots."""
    worker_ids: Maybe[list[str]] = None
    """For principals who may know of machines."""
    detail: Maybe[str] = None
    """Where no worker serves it: what to do."""


class QueueList(Answer):
    """The queues, those with the most waiting runs first, at most 100."""

    queues: list[ListedQueue]


MOST_QUEUES = 100


@fleet.get("/v1/queues")
@call({200: QueueList})
def queues() -> Response:
    """List the queues in which runs wait, and the default one; and for principals who may know of machines all that
    agents name or workers serve."""
    from bus.journal.tailing import queued_by_owner  # the first request opens the journal

    process, principal = current_process(), current_principal()
    default, sees_machines = process.settings.queue, may_see_machines(principal)
    with process.journal.database.read() as connection:
        waiting = queued_by_owner(connection, principal, default, is_of_all=sees_machines)
    rows = [row for row in process.journal.stores.workers.listed() if row["state"] == "alive"]
    names = {default, *waiting}
    if sees_machines:
        names |= {agent.queue for agent in process.runner.registry.usable() if agent.queue is not None}
        names |= {name for row in rows for name in row["queues"]}
    listed = [_queue(name, waiting.get(name), rows, default, sees_machines) for name in sorted(names)]
    listed.sort(key=lambda entry: -entry["queued"])
    return answer({"queues": listed[:MOST_QUEUES]})


def _queue(
    name: str, waiting: Mapping[str, Any] | None, rows: Iterable[Mapping[str, Any]], default: str, sees_machines: bool
) -> dict[str, Any]:
    serving = [row for row in rows if name in (row["queues"] or [default])]
    entry: dict[str, Any] = {"queue": name, "queued": waiting["queued"] if waiting is not None else 0}
    if waiting is not None:
        entry |= {"oldest_s": waiting["oldest_s"], "tenants" if sees_machines else "owners": waiting["waiting"]}
    entry |= {"workers": len(serving), "slots": sum(row["slots"] for row in serving)}
    entry["busy"] = sum(row["busy"] for row in serving)
    if sees_machines:
        entry["worker_ids"] = [row["worker_id"] for row in serving]
    if not serving:
        remedy = "./callboard worker" if name == default else f"./callboard worker --queues {name}"
        entry["detail"] = f"no living worker serves the queue {name}; start one: `{remedy}`."
    return entry


# --- observers that tail the log


class WhichObservers(Input):
    """Which observers to list."""

    name: Maybe[str] = None
    """Only this one, with its failed deliveries."""


def _require_operators() -> None:
    principal = current_principal()
    if not may_see_machines(principal):
        raise forbidden(principal, Verb.ADMINISTER, "the observers, which are of all tenants")


@fleet.get("/v1/observers")
@call({200: ObserverList}, problems=(FORBIDDEN,), requires=_require_operators)
def observers(query: WhichObservers) -> Response:
    """List the observers that tail the log. For administrators of the tenant `default`."""
    from bus.journal.tailing import dead_letters, observer_states  # the first request opens the journal

    with current_process().journal.database.read() as connection:
        states = [state for state in observer_states(connection) if query.name in (None, state.name)]
        rows = [asdict(state) | {"is_late": state.is_late} for state in states]
        for row in rows if query.name is not None else ():
            row["letters"] = [_letter(letter) for letter in dead_letters(connection, row["name"], 100)]
    return answer({"observers": rows})


def _letter(row: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: value for name, value in row.items() if not name.endswith("_ms")}
    next_at = {"next_at": stamp(row["next_ms"])} if row["next_ms"] is not None else {}
    return facts | {"first_at": stamp(row["first_ms"])} | next_at
