"""The order of a thread's turns that have not begun."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select, update

from bus.journal.records.control_requests import ControlRequest, set_turn, unread_steers
from config.database.tables import messages, runs


def put_first(connection: Connection, thread_key: int, run_id: str, queued: Sequence[str]) -> None:
    """queued -> queued: the run's turn comes before those of ``queued``, which the caller has locked in their order.

    Everything between them goes back by one place, in its order: runs that wait otherwise, and texts that no model has
    got, each of which may begin a turn. The places keep their numbers.
    """
    steers = unread_steers(connection, thread_key)
    turns = {row.id: row.turn for row in connection.execute(_TURNS, {"key_": thread_key, "ids_": [run_id, *queued]})}
    between = {"key_": thread_key, "first": min(turns.values()), "last": turns[run_id]}
    places: list[tuple[int, str | ControlRequest]] = [(r.turn, r.id) for r in connection.execute(_BETWEEN, between)]
    places += [(s.turn, s) for s in steers if s.turn is not None and between["first"] < s.turn < between["last"]]
    places.sort(key=lambda place: place[0])
    numbers, items = [turn for turn, _ in places], [item for _, item in places]
    for turn, item in zip(numbers, [items[-1], *items[:-1]], strict=True):
        if isinstance(item, ControlRequest):
            set_turn(connection, item, turn)
        elif len(items) > 1:
            connection.execute(_SET_TURN, {"id_": item, "turn_": turn})
            connection.execute(_SET_TURN_OF_MESSAGES, {"key_": thread_key, "id_": item, "turn_": turn})


_TURNS = select(runs.c.id, runs.c.turn).where(
    runs.c.thread_key == bindparam("key_"), runs.c.id.in_(bindparam("ids_", expanding=True))
)
_BETWEEN = select(runs.c.id, runs.c.turn).where(
    runs.c.thread_key == bindparam("key_"), runs.c.turn.between(bindparam("first"), bindparam("last"))
)
_SET_TURN = update(runs).where(runs.c.id == bindparam("id_")).values(turn=bindparam("turn_"))
_SET_TURN_OF_MESSAGES = (
    update(messages)
    .where(messages.c.thread_key == bindparam("key_"), messages.c.run_id == bindparam("id_"))
    .values(turn=bindparam("turn_"))
)
