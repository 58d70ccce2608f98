"""The order of a thread's turns that have not begun."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select, update

from bus.journal.records.control_requests import set_turn, unread_steers
from config.database.tables import messages, runs


def put_first(connection: Connection, thread_key: int, run_id: str, queued: Sequence[str]) -> None:
    """queued -> queued: the run's turn comes before those of ``queued``, which the caller has locked in their order.

    Everything between them goes back by one, in its order: runs that wait otherwise, texts that no model has got, each
    of which may begin a turn, and messages whose runs were removed. Two statements move them, however many they are. A
    place alone would not do: no number is free between the last turn that has begun and the first one that waits.
    """
    ids = [run_id, *queued[:1]]
    turns = {row.id: row.turn for row in connection.execute(_TURNS, {"key_": thread_key, "ids_": ids})}
    first, last = min(turns.values()), turns[run_id]
    if first == last:
        return
    for steer in unread_steers(connection, thread_key):
        if steer.turn is not None and first < steer.turn < last:
            set_turn(connection, steer, steer.turn + 1)
    for go_back, set_own in (_RUNS, _MESSAGES):
        connection.execute(go_back, {"key_": thread_key, "first": first, "last": last})
        connection.execute(set_own, {"key_": thread_key, "id_": run_id, "first": first})


_TURNS = select(runs.c.id, runs.c.turn).where(
    runs.c.thread_key == bindparam("key_"), runs.c.id.in_(bindparam("ids_", expanding=True))
)
_RUNS, _MESSAGES = (
    (
        update(table)
        .where(table.c.thread_key == bindparam("key_"), table.c.turn >= bindparam("first"))
        .where(table.c.turn < bindparam("last"))
        .values(turn=table.c.turn + 1),
        update(table)
        .where(table.c.thread_key == bindparam("key_"), own == bindparam("id_"))
        .values(turn=bindparam("first")),
    )
    for table, own in ((runs, runs.c.id), (messages, messages.c.run_id))
)
