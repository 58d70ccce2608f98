"""``/health``: can runs be accepted, and the state of each part; ``/ready``: are runs executed, too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from flask import Blueprint, Response

from bus.identity.access import may_see_machines, require_may_examine
from bus.identity.errors import FORBIDDEN
from bus.redis_wire import connect
from config.definitions.errors import DefinitionUnreadable
from config.errors import CallboardError
from config.redaction import redact
from web.api.answers import answer
from web.auth.authentication import current_principal, is_stranger
from web.calls.call import call
from web.calls.fields import Answer, Maybe
from web.doctor import Verdict
from web.doctor.server_checks import command_in
from web.fleet import Execution, execution_of, workers_starting
from web.problems import RETRY_AFTER_S, of_error
from web.process import WebProcess, current_process

if TYPE_CHECKING:
    from bus.journal import Journal


class McpServerHealth(Answer):
    """How an MCP server that agents use is in the living workers."""

    state: Literal["invalid", "needs_login", "backing_off", "starting", "ready", "idle", "configured", "disabled"]
    """The most urgent of the workers' states, in this order; ``docs/mcp-servers.md`` says what each means."""
    workers: dict[str, int]
    """How many workers have which state."""
    transport: Maybe[Literal["stdio", "http", "sse"]] = None
    sessions: Maybe[int] = None
    """Open sessions of all workers."""
    tools: Maybe[int] = None
    """Tools that it listed last."""
    reason: Maybe[str] = None
    """Why it cannot be used now, as a part of a sentence."""
    next_try_s: Maybe[float] = None
    """Seconds until it is tried again, if a call comes."""
    changed: Maybe[list[str]] = None
    """Its tools whose definition no person has accepted yet."""


class MissingKeyHealth(Answer):
    """A variable with a model's key that is not set in some workers."""

    agents: list[str]
    """The agents that need it."""
    workers: int
    """Workers that lack it; fewer than are alive: the others take such runs, and the status is ``degraded``."""


class ObserverHealth(Answer):
    """An observer that tails the log."""

    name: str
    state: Literal["running", "paused", "stopped"]
    """``stopped``: no process feeds it."""
    behind_s: float
    """Seconds since the first event that it has not had."""
    dead_letters: int
    """Deliveries that were given up."""
    is_late: bool
    """Whether a person should look at it: a minute behind, stopped with events to deliver, or with dead letters."""


class Health(Answer):
    """The state of each part, for people; the status alone without a credential."""

    status: Literal["ok", "degraded"]
    database: Maybe[str] = None
    """``ok``, or the code of its error."""
    detail: Maybe[str] = None
    """What is wrong with the database, as a sentence."""
    redis: Maybe[Literal["ok", "unreachable", "refuses_writes", "shared", "none"]] = None
    workers: Maybe[int] = None
    """Workers that are alive."""
    workers_starting: Maybe[int] = None
    """Workers that an ``up`` on the same state folder is starting."""
    abandoned_calls: Maybe[dict[str, int]] = None
    """The calls that workers gave up and that have not ended, by tool; for callers who may know of machines."""
    missing_keys: Maybe[dict[str, MissingKeyHealth]] = None
    """The variables of models' keys that workers lack; for callers who may know of machines."""
    mcp_servers: Maybe[dict[str, McpServerHealth]] = None
    """How each MCP server is, by name; for callers who may know of machines."""
    slowest_observer: Maybe[ObserverHealth] = None
    """The observer of the log that is furthest behind; for callers who may know of machines."""
    viewers: Maybe[int] = None
    """Streams that this process serves."""


class Ready(Answer):
    """This process accepts runs, and they are executed."""

    status: Literal["ready"]
    unserved_queues: Maybe[list[str]] = None
    """Queues that agents use and no living worker serves; for callers who may know of machines."""
    detail: Maybe[str] = None
    """What to do about them, as a sentence."""


class NotReady(Answer):
    """The database takes no writes, or no living worker serves a queue that agents use."""

    status: Literal["unavailable"]
    unserved_queues: Maybe[list[str]] = None
    """The queues that agents use; for callers who may know of machines."""
    detail: Maybe[str] = None
    """What to do about them, as a sentence."""


health = Blueprint("health", __name__)

FRESH_S = 1.0
"""Seconds for which the health that strangers see is used again."""
REDIS_TIMEOUT_S = 1.5
PROBE_MS = 1000
"""How long the key of the write test lives."""


@health.get("/health")
@call({200: Health, 503: Health})
def state() -> Response:
    """Return the state of each part: 200 if runs can be accepted, else 503; without a credential the status alone."""
    process = current_process()
    if is_stranger():  # whose requests no limit counts
        facts, status = process.strangers_health.get(FRESH_S, partial(_facts, process))
    else:
        facts, status = _facts(process)
    waiting = {"Retry_After": str(RETRY_AFTER_S)} if status == 503 else {}
    return answer({"status": facts["status"]} if is_stranger() else facts, status, **waiting)


def _facts(process: WebProcess) -> tuple[dict[str, Any], int]:
    try:
        process.journal.stores.write_probe.require()
        fleet = process.journal.stores.workers.alive()
    except CallboardError as error:
        detail = str(error) if _sees_machines() else error.public
        return {"status": "degraded", "database": error.code, "detail": redact(detail)}, 503
    from agents.tools.mcp.server_states import fleet_states
    from bus.journal.stores import abandoned_calls, missing_keys  # the first request opens the journal

    workers = len(fleet)
    parts: dict[str, Any] = {"database": "ok", "redis": redis_state(process), "workers": workers}
    if starting := workers_starting(process.settings.state, workers):
        parts["workers_starting"] = starting
    if _sees_machines() and (abandoned := abandoned_calls(fleet)):
        parts["abandoned_calls"] = abandoned
    if _sees_machines() and (servers := fleet_states(fleet)):
        parts["mcp_servers"] = servers
    keys = missing_keys(fleet)
    if _sees_machines() and keys:
        parts["missing_keys"] = keys
    if _sees_machines() and (slowest := _slowest_observer(process)):
        parts["slowest_observer"] = slowest
    is_uneven = any(entry["workers"] < workers for entry in keys.values())
    fine = parts["redis"] in ("ok", "none") and workers and not is_uneven and _is_served(process, fleet)
    return {"status": "ok" if fine else "degraded", **parts, "viewers": _viewers(process)}, 200


def _slowest_observer(process: WebProcess) -> dict[str, Any] | None:
    from bus.journal.tailing import observer_states  # the first request opens the journal

    with process.journal.database.read() as connection:
        states = observer_states(connection)
    if not states:
        return None
    slowest = max(states, key=lambda state: (state.is_late, state.behind_s, state.dead))
    facts = {name: getattr(slowest, name) for name in ("name", "state", "behind_s", "is_late")}
    return {**facts, "dead_letters": slowest.dead}


def _is_served(process: WebProcess, fleet: Sequence[Mapping[str, Any]]) -> bool:
    try:
        return execution_of(process, fleet).is_ready
    except DefinitionUnreadable:  # which every start of a run says
        return False


def _viewers(process: WebProcess) -> int:
    """Return how many streams this process serves: all, or those of a caller who may not know of the others."""
    viewers = process.hub.viewers
    if is_stranger():  # gets the status alone
        return 0
    return len(viewers) if _sees_machines() else viewers.counts.of(current_principal())


def _sees_machines() -> bool:
    return not is_stranger() and may_see_machines(current_principal())


@health.get("/ready")
@call({200: Ready, 503: NotReady})
def ready() -> Response:
    """Return 200 if runs are accepted and executed: the database takes writes, and a worker serves a queue in use.

    Else 503, though runs are accepted while only the workers are missing: ``/health`` says that. Queues in use that
    no worker serves are named in both answers. Without a credential the answer is the status alone.
    """
    process = current_process()
    if is_stranger():  # whose requests no limit counts
        return _readiness(process.strangers_ready.get(FRESH_S, partial(_is_ready, process)))
    try:
        execution = _execution(process)
    except CallboardError as error:
        answered = of_error(error)
        answered.status_code = 503
        return answered
    is_told = execution.unserved and _sees_machines()
    return _readiness(execution.is_ready, **(_waiting(execution.unserved) if is_told else {}))


def _is_ready(process: WebProcess) -> bool:
    try:
        return _execution(process).is_ready
    except CallboardError:
        return False


def _execution(process: WebProcess) -> Execution:
    """Return who executes runs, if they are accepted; the error of the database otherwise."""
    process.journal.stores.write_probe.require()
    return execution_of(process, process.journal.stores.workers.alive())


def _readiness(is_ready: bool, **facts: Any) -> Response:
    if is_ready:
        return answer({"status": "ready", **facts})
    return answer({"status": "unavailable", **facts}, 503, Retry_After=str(RETRY_AFTER_S))


def _waiting(queues: Sequence[str]) -> dict[str, Any]:
    detail = (
        f"no living worker serves the queue {' or '.join(queues)}, so runs wait there; start one: "
        f"`./callboard worker --queues {','.join(queues)}`."
    )
    return {"unserved_queues": queues, "detail": detail}


def redis_state(process: WebProcess) -> str:
    """Return ``ok``, ``none`` if none is configured, or what is wrong.

    That is ``unreachable``, ``refuses_writes`` (full, or a replica), or ``shared`` (workers of another database
    use the same deployment name).
    """
    url = process.settings.redis_url
    if url is None:
        return "none"
    try:
        return process.journal.loop.run(_try(url, process.journal))
    except (CallboardError, ConnectionError, TimeoutError):
        return "unreachable"


async def _try(url: str, journal: Journal) -> str:
    """Write to Redis, since a full one would answer a PING, too, and look for workers of another database."""
    from bus.journal.stores import is_shared  # the first request opens the journal

    own_id = await journal.loop.read(journal.live.database_id)
    async with asyncio.timeout(REDIS_TIMEOUT_S):
        with closing(await connect(url)) as wire:
            (reply,) = await wire.send([("SET", journal.live.keys.probe, "", "PX", PROBE_MS)])
            if isinstance(reply, Exception):
                return "refuses_writes"
            return "shared" if await is_shared(journal.live.keys, own_id, wire.send) else "ok"


# --- what the doctor says


class DoctorFinding(Answer):
    """What one check says about one thing."""

    check: str
    """Its name, as ``./callboard doctor`` prints it."""
    state: Verdict
    """``fail``: work or keys may be lost, or no run is executed; ``warn``: slower or riskier than necessary."""
    sentence: str
    """With a remedy where the state is not ``ok``."""
    remedy: Maybe[str] = None
    """The command of the remedy, where it is one."""


class DoctorReport(Answer):
    """What the checks of servers say, in their order; one check may say several things, or nothing."""

    state: Verdict
    """The worst of the findings' states."""
    findings: list[DoctorFinding]


_WORST: tuple[Verdict, ...] = ("fail", "warn")


@health.get("/v1/doctor")
@call({200: DoctorReport}, problems=(FORBIDDEN,))
def doctor_report() -> Response:
    """Check the servers that this process uses, within five seconds; findings are used again for five seconds.

    For principals of the tenant `default` that control the runs of others.
    """
    require_may_examine(current_principal())
    process = current_process()
    findings = process.doctor.findings(process.settings)
    states = {finding.verdict for finding in findings}
    worst = next((state for state in _WORST if state in states), "ok")
    return answer({"state": worst, "findings": [_finding(*finding) for finding in findings]})


def _finding(about: str, verdict: Verdict, text: str) -> dict[str, str]:
    command = command_in(text) if verdict != "ok" else None
    return {"check": about, "state": verdict, "sentence": text} | ({"remedy": command} if command else {})
