"""The order of a thread's turns that have not begun."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select, update

from config.database.tables import messages, runs


def put_first(connection: Connection, thread_key: int, run_id: str, queued: Sequence[str]) -> None:
    """queued -> queued: the run's turn comes before those of ``queued``, which the caller has locked in their order.

    The turns keep their numbers, and each run that goes back takes the number of the next one.
    """
    order = [run_id, *(other for other in queued if other != run_id)]
    rows = connection.execute(_TURNS, {"key_": thread_key, "ids_": order}).all()
    turns = {row.id: row.turn for row in rows}
    for run, turn in zip(order, sorted(turns.values()), strict=True):
        if turns[run] != turn:
            connection.execute(_SET_TURN, {"id_": run, "turn_": turn})
            connection.execute(_SET_TURN_OF_MESSAGES, {"key_": thread_key, "id_": run, "turn_": turn})


_TURNS = select(runs.c.id, runs.c.turn).where(
    runs.c.thread_key == bindparam("key_"), runs.c.id.in_(bindparam("ids_", expanding=True))
)
_SET_TURN = update(runs).where(runs.c.id == bindparam("id_")).values(turn=bindparam("turn_"))
_SET_TURN_OF_MESSAGES = (
    update(messages)
    .where(messages.c.thread_key == bindparam("key_"), messages.c.run_id == bindparam("id_"))
    .values(turn=bindparam("turn_"))
)
