"""What clients request of open runs: done at once where a run has no owner, else by its owner, which answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, insert, update

from bus.identity.audit.entry import Action
from bus.identity.audit.recording import record
from bus.journal.controls import RESUME, SIGNAL, STOP, Control
from bus.journal.errors import CONTROL_REFUSED
from bus.journal.idempotency import IdempotencyKey, remember, used_before
from bus.journal.log.commit import Commit
from bus.journal.records.control_requests import (
    ACCEPTED,
    CONSUMED,
    REFUSED,
    STALE,
    SUPERSEDED,
    ControlRequest,
    add_control,
    number_of,
    signals_given,
    take_back,
    unread_controls,
)
from bus.journal.records.definition_store import read_pinned
from bus.journal.records.originals import write_originals
from bus.journal.records.steps import AGENT, TOOL, WORKFLOW, left_to_undo
from bus.journal.run_end import end_run
from bus.journal.states.codes import CODE, STOPPED, WAKEABLE, Ending, LeftAs, Reason, RunStatus
from bus.journal.states.conditions import has_live_owner
from bus.journal.states.queue_order import priority_number
from bus.journal.unowned.transitions import (
    CommitResult,
    lock_allowed_run,
    lock_run,
    move,
    request_stop,
    untouched,
    write,
)
from bus.payloads import TERMINAL
from bus.sealing import Original
from config.database.engine import WALL_MS, Database
from config.database.tables import threads, timers
from config.definitions.behaviour import max_iterations_in
from config.failpoints import failpoint
from config.identity.principal import Principal, Verb
from config.ids import new_id

WAIT_S = 7 * 24 * 3600
"""Seconds that a paused run waits for its resumption, unless the settings say otherwise."""


KINDS = {TOOL: "one call of a tool", WORKFLOW: "a workflow"}
"""The kinds of runs besides an agent's, as errors name them."""
BEING_STOPPED = "it is being stopped; send a message to its thread instead"


def control(
    database: Database,
    principal: Principal,
    run_id: str,
    command: Control,
    by: str,
    idempotency: IdempotencyKey | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    originals: Sequence[Original] = (),
    expected_status: str | None = None,
    wait_s: int = WAIT_S,
) -> CommitResult:
    """Do what the verb says, or request it of the run's owner, and return the control's id with the run's state.

    Where an owner has a valid lease, a row in ``controls`` is written (and the run's flag for a stop), and the owner
    does the rest. A second stop or pause changes nothing. ``data``: the text of a steer; ``originals``: what guardrails
    removed something from; ``expected_status``: the only one in which it is done; ``wait_s``: that a paused run waits.

    Raises:
        RunUnknown, FORBIDDEN: see ``lock_allowed_run``.
        IDEMPOTENCY_CONFLICT, BadRequest: the key was used with another body; there is no such priority.
        CONTROL_REFUSED: the run's state does not allow it; the sentence says what to do instead.
        TOO_MANY_CONTROLS: the run's owner has not read as many as may wait.
    """
    with database.write() as connection:
        row = lock_allowed_run(connection, principal, Verb.CONTROL, run_id)
        earlier = used_before(connection, principal, idempotency) if idempotency is not None else None
        if earlier is not None:
            number = number_of(connection, earlier.control_id)
            return replace(untouched(row), control_id=earlier.control_id, number=number)
        data = _expecting(row, command, expected_status, data)
        written = control_locked(database, connection, row, command, by, data, wait_s)
        if idempotency is not None:
            remember(connection, principal, idempotency, run_id, control_id=written.control_id)
        if written.control_id is not None:
            write_originals(connection, run_id, originals)
            record_control(connection, principal, row, command, by)
    failpoint("unowned")
    return written


def _expecting(
    row: Row[Any], command: Control, expected_status: str | None, data: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the data with the expectation, where an owner reads it later; stops and resumptions hold from now on.

    Raises:
        CONTROL_REFUSED: the run has another status.
    """
    if expected_status is None:
        return data
    if row.status != expected_status:
        why = f" ({row.reason})" if row.reason else ""
        problem = f"it is {row.status}{why}, and you expected {expected_status}; look at it, and request what fits now"
        raise _refused(command, problem)
    if command in (STOP, RESUME):
        return data
    return {**(data or {}), "expected_status": expected_status, "fence": row.fence}


def control_locked(
    database: Database,
    connection: Connection,
    row: Row[Any],
    command: Control,
    by: str,
    data: Mapping[str, Any] | None = None,
    wait_s: int = WAIT_S,
) -> CommitResult:
    """Do or request it of a run whose row is locked; ``control_id`` is None where there was nothing to do."""
    if row.status in TERMINAL:
        if isinstance(command.to, Ending):
            return untouched(row)
        instead = "" if command.takes_limits or command is SIGNAL else "; send a message to its thread instead"
        raise _refused(command, f"it has ended as {row.status}{instead}")
    match command.to:
        case Ending() as ending:
            return _stop(database, connection, row, command, ending, by, data)
        case LeftAs() as state:
            return _leave(connection, row, command, state, by, data, wait_s)
        case None if command.takes_limits and not {"max_iterations", "priority"} & {*(data or {})}:
            return untouched(row)
        case None if command.takes_limits:
            return _set(connection, row, command, by, data or {})
        case None if command is SIGNAL:
            return _signal(connection, row, command, by, data or {})
        case None:
            return _give(connection, row, command, by, data or {})


def record_control(connection: Connection, principal: Principal, run: Row[Any], command: Control, by: str) -> None:
    """Add an entry about a control to the audit log."""
    record_change(connection, principal, run, command.verb, by if by != principal.id else None)


def record_change(
    connection: Connection, principal: Principal, run: Row[Any], verb: str, by: str | None = None
) -> None:
    """Add an entry to the audit log about what a client did with a run."""
    facts = {"verb": verb, "agent": run.agent_id, "by": by}
    record(connection, principal, Action.RUN_CONTROLLED, "run", run.id, **facts)


def _refused(command: Control, problem: str) -> Exception:
    return CONTROL_REFUSED(request=command.request, problem=problem)


def _as_requested(result: CommitResult, request: ControlRequest) -> CommitResult:
    return replace(result, control_id=request.control_id, number=request.number)


def _stop(
    database: Database,
    connection: Connection,
    row: Row[Any],
    command: Control,
    ending: Ending,
    by: str,
    data: Mapping[str, Any] | None,
) -> CommitResult:
    """Request the end of a run with a live owner, unless that was requested before; end another one at once."""
    is_owned = has_live_owner(database, connection, row)
    requested = [request for request in unread_controls(connection, row.id) if request.kind == command.kind]
    if is_owned and any(request.data == (data or {}) for request in requested):
        return untouched(row)
    request = add_control(connection, row.id, command.kind, by, data)
    if not is_owned and not left_to_undo(connection, row.id):
        return _as_requested(end_run(connection, row, ending), request)
    request_stop(connection, row)
    if is_owned or row.status != RunStatus.WAITING:  # a queued run's next owner undoes what earlier ones did
        return _as_requested(untouched(row), request)
    return _as_requested(move(connection, row, RunStatus.QUEUED, Reason.STOPPED), request)


def stop_child(database: Database, run_id: str) -> CommitResult | None:
    """Stop a child whose parent has ended, as a client would; None where it has ended.

    In a transaction of its own: the parent's has locked the parent's row, and an end locks a child's row first.
    """
    with database.write() as connection:
        row = lock_run(connection, run_id)
        data = {"parent": row.parent_id} if row is not None else None
        written = stop_locked(database, connection, row, data) if row is not None else None
    failpoint("unowned")
    return written


def stop_locked(
    database: Database, connection: Connection, row: Row[Any], data: Mapping[str, Any] | None = None
) -> CommitResult | None:
    """Stop a locked child in the name of its parent; None where it has ended."""
    if row.status in TERMINAL:
        return None
    return _stop(database, connection, row, STOP, STOPPED, row.parent_id or "", data)


def _leave(
    connection: Connection,
    row: Row[Any],
    command: Control,
    state: LeftAs,
    by: str,
    data: Mapping[str, Any] | None,
    wait_s: int,
) -> CommitResult:
    """Leave a run without an owner in another state; request it of an owner; or take back what it has not read."""
    unread = unread_controls(connection, row.id)
    if command.takes_back is not None and row.status in (RunStatus.RUNNING, RunStatus.QUEUED):
        return _take_back(connection, row, command, [r for r in unread if r.kind == command.takes_back], by)
    if row.stop_requested and state.status == "waiting":
        raise _refused(command, BEING_STOPPED)
    if row.status == RunStatus.RUNNING:
        if any(request.kind == command.kind and not request.read_at(row.fence).is_stale for request in unread):
            return untouched(row)
        return _as_requested(untouched(row), add_control(connection, row.id, command.kind, by, data))
    if not command.applies(row.status, row.reason):
        if row.reason == state.reason:
            return untouched(row)
        raise _refused(command, _problem(row))
    request = add_control(connection, row.id, command.kind, by, is_answered=True)
    answers = [earlier.answer(REFUSED, STALE) for earlier in unread if earlier.may_be_stale]
    valid = [earlier for earlier in unread if not earlier.may_be_stale]
    same = [earlier for earlier in valid if earlier.kind == command.kind]  # its owner was lost before it came to them
    _set_timer(connection, row, state, wait_s)
    answers += [answer for each in (*same, request) for answer in (*each.superseded(), each.answer(CONSUMED))]
    return _as_requested(move(connection, row, state.status, state.reason, *answers), request)


def _problem(row: Row[Any]) -> str:
    if row.status == RunStatus.WAITING:
        return f"it waits already ({row.reason}) and holds no worker; answer or stop it instead"
    return f"it is {row.status}, and not paused"


def _take_back(
    connection: Connection, row: Row[Any], command: Control, earlier: list[ControlRequest], by: str
) -> CommitResult:
    """Refuse earlier controls in favour of this one; the owner writes what became of both."""
    if not earlier:
        raise _refused(command, f"it is {row.status}, and not paused")
    for request in earlier:
        take_back(connection, request.id, REFUSED)
    data = {"supersedes": [request.id for request in earlier], "reason": SUPERSEDED}
    return _as_requested(untouched(row), add_control(connection, row.id, command.kind, by, data))


def _set_timer(connection: Connection, row: Row[Any], state: LeftAs, wait_s: int) -> None:
    """Let a run that is paused expire, and one that is resumed expire no more."""
    connection.execute(delete(timers).where(timers.c.run_id == row.id, timers.c.kind == CODE))
    if state.status == "waiting":
        timer = {"id": new_id("tmr"), "run_id": row.id, "kind": CODE}
        connection.execute(insert(timers).values(**timer, due_ms=WALL_MS + wait_s * 1000))


def _set(connection: Connection, row: Row[Any], command: Control, by: str, data: Mapping[str, Any]) -> CommitResult:
    """Change limits or the priority of a run without an owner at once; request it of an owner."""
    if "max_iterations" in data:
        _require_allowed(connection, row, command, data["max_iterations"])
    if "priority" in data:
        priority_number(data["priority"])
    is_owned = row.status == RunStatus.RUNNING
    request = add_control(connection, row.id, command.kind, by, data, is_answered=not is_owned)
    if is_owned:  # also where the owner is lost: the next one reads it
        return _as_requested(untouched(row), request)
    kept = {name: getattr(row, name) for name in ("owner", "lease_until")}  # a process may wait to run it inline
    return _as_requested(write(connection, row, Commit(events=[request.answer(CONSUMED)]), **kept), request)


def _require_allowed(connection: Connection, row: Row[Any], command: Control, rounds: int) -> None:
    """Return where the run's agent, and its parent, allow as many rounds; a client only lowers what they have."""
    if row.kind != AGENT:
        raise _refused(command, f"it is {KINDS[row.kind]}, without rounds; stop it instead")
    content_json = read_pinned(connection, row.definition_digest) or "{}"
    allowed = [max_iterations_in(content_json)]
    allowed += [orjson.loads(row.budget_json).get("rounds", rounds)] if row.budget_json is not None else []
    if rounds > min(allowed):
        raise _refused(
            command,
            f"it may have {min(allowed)} rounds at most, by its agent's definition or its parent; ask for no more than "
            "these, or raise max_iterations in the agent's file for later runs",
        )


def _give(connection: Connection, row: Row[Any], command: Control, by: str, data: Mapping[str, Any]) -> CommitResult:
    """Add a text for the run's model, in the order in which the messages of its thread arrive."""
    if row.kind != AGENT:
        problem = f"it is {KINDS[row.kind]}, which takes no message; send one to its thread instead"
        raise _refused(command, problem)
    if row.stop_requested:
        raise _refused(command, BEING_STOPPED)
    number = connection.execute(_NEXT_NUMBER, {"key_": row.thread_key}).scalar_one() - 1
    request = add_control(connection, row.id, command.kind, by, data, number)
    if row.status != RunStatus.WAITING:
        return _as_requested(untouched(row), request)
    return _as_requested(write(connection, row, Commit(events=[request.answer(ACCEPTED)])), request)


def _signal(connection: Connection, row: Row[Any], command: Control, by: str, data: Mapping[str, Any]) -> CommitResult:
    """Keep a signal for the node that waits for its name, or will; a run that waits takes it at once."""
    if row.kind != WORKFLOW:
        raise _refused(command, "it is no workflow, and waits for no signal; send a message to its thread instead")
    if row.stop_requested:
        raise _refused(command, BEING_STOPPED)
    if data["name"] in signals_given(connection, row.id):
        raise _refused(command, f"its signal '{data['name']}' was given before, and each is taken once")
    request = add_control(connection, row.id, command.kind, by, data)
    if row.status != RunStatus.WAITING:
        return _as_requested(untouched(row), request)
    accepted = request.answer(ACCEPTED)
    if row.reason in WAKEABLE:
        return _as_requested(move(connection, row, RunStatus.QUEUED, Reason.SIGNAL, accepted), request)
    return _as_requested(write(connection, row, Commit(events=[accepted])), request)


_NEXT_NUMBER = (
    update(threads)
    .where(threads.c.key == bindparam("key_"))
    .values(next_message=threads.c.next_message + 1, updated_ms=WALL_MS)
    .returning(threads.c.next_message)
)
