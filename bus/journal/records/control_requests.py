"""What clients request of open runs, one row each: read by the run's owner in order, and answered by an event.

The event decides: a commit that has it sets the row's state, and is refused where the row has another answer already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, case, func, insert, null, or_, select, update

from bus.journal.errors import TOO_MANY_CONTROLS, ControlsChanged
from bus.payloads import ControlPayload, Payload
from config.database.engine import WALL_MS
from config.database.tables import controls, runs

STOP, STEER, PAUSE, RESUME, SET, SIGNAL = "stop", "steer", "pause", "resume", "set", "signal"
"""The kinds of controls."""
WAKE = "wake"
"""The kind of a row that no client requests and no event answers: while a workflow's owner is at one branch, what
another one waits for has come."""
MAX_UNREAD = 100
"""Controls of one run that may be unread at once."""
LIMITS = ("max_iterations", "priority")
"""What a ``set`` changes."""
NEXT = {"next": True}
"""The data of a stop that is made for a message."""
ACCEPTED, CONSUMED, REFUSED, UNDELIVERED = "accepted", "consumed", "refused", "undelivered"
NEXT_TURN, ENDED, SUPERSEDED, STALE = "next_turn", "ended", "superseded", "stale"
BLOCKED, UNCHECKED = "input_blocked", "unchecked"
"""Reasons of answers: a steer begins the thread's next turn; the run ended before; a later control takes it back; the
run has left the status that the client expected; a guardrail of the definition that the run has now blocks the text,
which another one has let through; or the run ended before that guardrail could look at it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlRequest:
    """One control of a run."""

    id: int
    run_id: str
    kind: str
    by: str | None
    data: Mapping[str, Any] = field(default_factory=dict)
    """``content`` of a steer, the digest of the definition whose guardrails it was ``checked_by``, and its ``turn``
    where that was moved; the limits of a ``set``; of a stop the ``rollback`` that undoes the turn, and what it is made
    for: the ``next`` message, the end of its ``parent``, or ``unwatched_s``, seconds without viewers; what a resumption
    ``supersedes``; the ``name`` and ``data`` of a signal; ``expected_status``, with the ``fence`` of that moment."""
    number: int | None = None
    """Of a steer: its place among the thread's messages, in which it arrived."""
    is_accepted: bool = False
    """Whether the run's log says that it was accepted."""
    is_stale: bool = False
    """Whether the run has left the status that the client expected, before it was accepted."""
    is_blocked: bool = False
    """Whether the guardrails of the run's definition find something that those it was checked by have let through."""
    is_unchecked: bool = False
    """Whether the run ends before they could look at it."""

    @property
    def may_be_stale(self) -> bool:
        """Whether it is for one status of the run alone, and was not accepted while the run had that."""
        return "expected_status" in self.data and not self.is_accepted

    @property
    def refusal(self) -> str | None:
        """Why its run does not take it; None where it does."""
        if self.is_stale:
            return STALE
        return BLOCKED if self.is_blocked else None

    def read_at(self, fence: int) -> ControlRequest:
        """Return it as the owner with this fence reads it; each owner has another one."""
        is_other = self.data.get("expected_status") == "running" and self.data["fence"] != fence
        return replace(self, is_stale=is_other) if self.may_be_stale else self

    def is_checked_for(self, digest: str) -> bool:
        """Return whether the guardrails of this definition have passed the text; a client of the journal has none."""
        return bool(self.data.get("checked_by", digest) == digest)

    @property
    def control_id(self) -> str:
        """As clients know it."""
        return f"ctl_{self.id}"

    @property
    def content(self) -> str:
        """The text of a steer, the limits of a ``set``, or the name of a signal."""
        if self.kind == SIGNAL:
            return str(self.data["name"])
        if self.kind == SET:
            return ", ".join(f"{name} {value}" for name, value in self.data.items() if name in LIMITS)
        return str(self.data.get("content", ""))

    @property
    def max_rounds(self) -> int | None:
        """Of a ``set``: most rounds with tools from now on."""
        return self.data.get("max_iterations") if self.kind == SET else None

    @property
    def priority(self) -> str | None:
        """Of a ``set``: the run's priority from now on."""
        return self.data.get("priority") if self.kind == SET else None

    @property
    def cause(self) -> str | None:
        """Of a stop: why it was requested, as a sentence; None: a person asked for it."""
        if "unwatched_s" in self.data:
            return f"Stopped: it had no viewers for {self.data['unwatched_s']} s."
        if "parent" in self.data:
            return f"Stopped with {self.data['parent']}, which called it."
        return "Stopped for the next message." if "next" in self.data else None

    @property
    def turn(self) -> int | None:
        """Of a steer: the turn that it may begin; that of its arrival, unless a message was put before it."""
        turn: int | None = self.data.get("turn", self.number)
        return turn

    def answer(self, state: str, reason: str | None = None) -> ControlPayload:
        """Return the event that answers it."""
        content = self.content or None
        return ControlPayload(
            control_id=self.control_id, verb=self.kind, state=state, by=self.by, content=content, reason=reason
        )

    def superseded(self, with_author: Mapping[int, ControlRequest] | None = None) -> list[ControlPayload]:
        """Return the answers to the pauses that this resumption has taken back.

        ``with_author``: requests by their ids, of which it is known who made them.
        """
        pauses = [replace(self, id=int(row_id), kind=PAUSE) for row_id in self.data.get("supersedes", ())]
        return [(with_author or {}).get(pause.id, pause).answer(REFUSED, SUPERSEDED) for pause in pauses]


def add_control(
    connection: Connection,
    run_id: str,
    kind: str,
    by: str,
    data: Mapping[str, Any] | None = None,
    number: int | None = None,
    *,
    is_answered: bool = False,
) -> ControlRequest:
    """Insert a control of a run whose row is locked; ``is_answered``: the same transaction answers it.

    Raises:
        TOO_MANY_CONTROLS: as many as may be are unread, and this one would be. A stop or a resumption is taken.
    """
    values = {"run_id": run_id, "kind": kind, "by": by, "number": number}
    is_limited = not is_answered and kind not in (STOP, RESUME)
    if is_limited and connection.execute(_COUNT, {"run_": run_id}).scalar_one() >= MAX_UNREAD:
        raise TOO_MANY_CONTROLS(limit=MAX_UNREAD)
    data_json = orjson.dumps(dict(data)).decode() if data else None
    row_id = connection.execute(_ADD, values | {"data_json": data_json}).scalar_one()
    return ControlRequest(id=row_id, run_id=run_id, kind=kind, by=by, data=data or {}, number=number)


def signals_given(connection: Connection, run_id: str) -> set[str]:
    """Return the names of the signals that a run was given and has not refused."""
    return {orjson.loads(data_json)["name"] for data_json in connection.execute(_SIGNALS, {"run_": run_id}).scalars()}


def wake(connection: Connection, run_id: str, by: str) -> None:
    """Let a workflow's owner know that something has come for which one of its branches waits."""
    connection.execute(_ADD, {"run_id": run_id, "kind": WAKE, "by": by, "number": None, "data_json": None})


def note_wakes(connection: Connection, run_id: str) -> None:
    """Note that an owner has read what came."""
    connection.execute(_NOTE_WAKES, {"run_": run_id})


def number_of(connection: Connection, control_id: str | None) -> int | None:
    """Return in which place among its thread's messages a steer arrived; None for another control, or none."""
    row_id = int(control_id.removeprefix("ctl_")) if control_id is not None else None
    number: int | None = connection.execute(_NUMBER, {"id_": row_id}).scalar()
    return number


def unread_controls(connection: Connection, run_id: str) -> list[ControlRequest]:
    """Return the controls of a run that no event has answered, in the order in which they arrived."""
    return [request_of(row) for row in connection.execute(_UNREAD, {"run_": run_id})]


def unread_steers(connection: Connection, thread_key: int) -> list[ControlRequest]:
    """Lock and return the texts that no model of a thread has got, in the order in which they arrived."""
    return [
        request_of(row)
        for row in connection.execute(STEERS_OF_THREAD.with_for_update(of=controls), {"key_": thread_key})
    ]


def set_turn(connection: Connection, steer: ControlRequest, turn: int) -> None:
    """Let an unread steer begin this turn, where it begins one."""
    data_json = orjson.dumps(dict(steer.data) | {"turn": turn}).decode()
    connection.execute(_SET_DATA, {"id_": steer.id, "data_json_": data_json})


def request_of(row: Row[Any]) -> ControlRequest:
    return ControlRequest(
        id=row.id,
        run_id=row.run_id,
        kind=row.kind,
        by=row.by,
        data=orjson.loads(row.data_json) if row.data_json else {},
        number=row.number,
        is_accepted=row.state == ACCEPTED,
    )


def note_answers(connection: Connection, events: Iterable[Payload]) -> None:
    """Set the state of each control that one of these numbered events answers.

    Raises:
        ControlsChanged: one of them has another answer.
    """
    for event in events:
        if isinstance(event, ControlPayload) and event.control_id.startswith("ctl_"):
            values = {"id_": int(event.control_id[4:]), "state_": event.state, "consumed_at_": event.consumed_at}
            if connection.execute(_ANSWER, values | {"is_open": event.state == ACCEPTED}).rowcount != 1:
                raise ControlsChanged


def priority_set(connection: Connection, events: Iterable[Payload]) -> str | None:
    """Return the priority that the controls which these events answer have set; None where none has."""
    priority = None
    for event in events:
        if isinstance(event, ControlPayload) and (event.verb, event.state) == (SET, CONSUMED):
            request = request_of(connection.execute(_ONE, {"id_": int(event.control_id[4:])}).one())
            priority = request.priority or priority
    return priority


def take_back(connection: Connection, control_id: int, state: str) -> None:
    """Answer a control that its run's owner has not read; the event that says so comes later, with the same state."""
    connection.execute(_ANSWER, {"id_": control_id, "state_": state, "consumed_at_": None, "is_open": False})


def require_answered(connection: Connection, run_id: str) -> None:
    """Return unless a control of the run, which ends now, is unread.

    Raises:
        ControlsChanged: one is.
    """
    if connection.execute(_ANY, {"run_": run_id}).first() is not None:
        raise ControlsChanged


def answers_at_end(requests: Sequence[ControlRequest], status: str) -> list[ControlPayload]:
    """Return the answers to a run's unread controls where it ends with this status.

    A steer of a run that was stopped, or whose guardrails have not seen it, is not delivered; of another one it begins
    the thread's next turn. What a resumption has taken back is answered with it.
    """
    taken_back = [answer for request in requests for answer in request.superseded()]
    return [*taken_back, *(_at_end(request, is_stopped=status == "cancelled") for request in requests)]


def _at_end(request: ControlRequest, *, is_stopped: bool) -> ControlPayload:
    match request.kind:
        case _ if request.refusal is not None:
            return request.answer(REFUSED, request.refusal)
        case "stop" if is_stopped:
            return request.answer(CONSUMED)
        case "steer" if is_stopped:
            return request.answer(UNDELIVERED, "stopped")
        case "steer" if request.is_unchecked:
            return request.answer(UNDELIVERED, UNCHECKED)
        case "steer":
            return request.answer(CONSUMED, NEXT_TURN)
        case _:
            return request.answer(REFUSED, ENDED)


def next_turns(connection: Connection, events: Iterable[Payload]) -> list[ControlRequest]:
    """Return the steers that begin turns of their own, of the events of an end."""
    ids = [
        int(event.control_id[4:]) for event in events if isinstance(event, ControlPayload) and event.reason == NEXT_TURN
    ]
    if not ids:
        return []
    return [request_of(row) for row in connection.execute(select(controls).where(controls.c.id.in_(ids)))]


def rounds_bought(connection: Connection, run_id: str) -> int:
    """Return how many boundaries of the run consumed steers: each of them buys one round of tools."""
    return int(connection.execute(_BOUGHT, {"run_": run_id}).scalar_one())


def rounds_set(connection: Connection, run_id: str) -> int | None:
    """Return the most rounds that the last consumed ``set`` of these allows; None where there is none."""
    allowed = (orjson.loads(row.data_json).get("max_iterations") for row in connection.execute(_SETS, {"run_": run_id}))
    return next((rounds for rounds in allowed if rounds is not None), None)


_OF_RUN = controls.c.run_id == bindparam("run_")
_OPEN = _OF_RUN, controls.c.taken_ms.is_(None), controls.c.kind != WAKE
_UNREAD = select(controls).where(*_OPEN).order_by(controls.c.id)
STEERS_OF_THREAD = (
    select(controls)
    .join(runs, runs.c.id == controls.c.run_id)
    .where(runs.c.thread_key == bindparam("key_"), runs.c.ended_ms.is_(None))
    .where(controls.c.kind == STEER, controls.c.taken_ms.is_(None))
    .order_by(controls.c.id)
)
_SET_DATA = update(controls).where(controls.c.id == bindparam("id_")).values(data_json=bindparam("data_json_"))
_ANY = select(controls.c.id).where(*_OPEN).limit(1)
_COUNT = select(func.count()).select_from(controls).where(*_OPEN)
_NOTE_WAKES = (
    update(controls).where(_OF_RUN, controls.c.taken_ms.is_(None), controls.c.kind == WAKE).values(taken_ms=WALL_MS)
)
_NUMBER = select(controls.c.number).where(controls.c.id == bindparam("id_"))
_ADD = insert(controls).values(created_ms=WALL_MS).returning(controls.c.id)
_ANSWER = (
    update(controls)
    .where(
        controls.c.id == bindparam("id_"),
        or_(controls.c.taken_ms.is_(None), controls.c.state == bindparam("state_")),
    )
    .values(
        state=bindparam("state_"),
        consumed_at=bindparam("consumed_at_"),
        taken_ms=case((bindparam("is_open"), null()), else_=WALL_MS),
    )
)
_SETS = (
    select(controls.c.data_json)
    .where(_OF_RUN, controls.c.kind == SET, controls.c.state == CONSUMED)
    .order_by(controls.c.id.desc())
)
_SIGNALS = select(controls.c.data_json).where(
    _OF_RUN, controls.c.kind == SIGNAL, or_(controls.c.state.is_(None), controls.c.state != REFUSED)
)
_ONE = select(controls).where(controls.c.id == bindparam("id_"))
_BOUGHT = select(func.count(controls.c.consumed_at.distinct())).where(
    _OF_RUN, controls.c.kind == STEER, controls.c.state == CONSUMED
)
