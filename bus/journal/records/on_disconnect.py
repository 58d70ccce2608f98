"""What becomes of a run that has no viewers: a timer, which each follower of the run puts off at intervals.

A process that is killed puts it off no more, so that no process has to know of the viewers of the others.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, insert, select, update

from config.database.engine import WALL_MS, Database
from config.database.tables import timers
from config.definitions.behaviour import ON_DISCONNECT, ON_DISCONNECT_FORM
from config.errors import BadRequest
from config.ids import new_id

DISCONNECT = "disconnect"
"""The kind of these timers."""
CONTINUE = "continue"
"""The policy that needs no timer; the others are the name of a control and seconds, as ``stop:30``."""
FIRST_NOTE_S = 1.0
"""Seconds for which a follower is there before it is noted; a third of the fewest seconds of a policy."""
PARKED_S = 10 * 365 * 24 * 3600
"""Seconds for which the timer of a run that waits, and is not to be paused therefore, is put off."""


def require_policy(policy: str | None) -> None:
    """Return if it is a policy, or None.

    Raises:
        BadRequest: it is none.
    """
    if policy is not None and re.fullmatch(ON_DISCONNECT, policy) is None:
        raise BadRequest(f"'on_disconnect' {ON_DISCONNECT_FORM}")


def add_policy(connection: Connection, run_id: str, policy: str | None) -> None:
    """Begin to count the seconds of a new run, which had no viewer yet."""
    if policy is not None and policy != CONTINUE:
        data_json = orjson.dumps({"policy": policy}).decode()
        timer = {"id": new_id("tmr"), "run_id": run_id, "kind": DISCONNECT, "data_json": data_json}
        connection.execute(insert(timers).values(**timer, due_ms=WALL_MS + _ms(after_s(policy))))


def policy_of(connection: Connection, run_id: str) -> str | None:
    """Return the policy of a run; None where it continues without viewers."""
    row = connection.execute(_OF_RUN, {"run_": run_id}).first()
    return policy_in(row) if row is not None else None


def policy_in(timer: Row[Any]) -> str:
    """Return the policy that a timer of this kind is about."""
    return str(orjson.loads(timer.data_json)["policy"])


def note_viewer(database: Database, run_id: str) -> float | None:
    """Count the seconds without viewers anew, and return in how many seconds that is due again.

    None: the run continues without viewers, so nothing is noted.
    """
    with database.read() as connection:
        policy = policy_of(connection, run_id)
    if policy is None:
        return None
    with database.write() as connection:
        put_off(connection, run_id, policy)
    return after_s(policy) / 3


def count_anew(connection: Connection, run_id: str) -> None:
    """Count the seconds of a run anew, which continues now."""
    policy = policy_of(connection, run_id)
    if policy is not None:
        put_off(connection, run_id, policy)


def put_off(connection: Connection, run_id: str, policy: str, *, is_parked: bool = False) -> None:
    """Count anew; ``is_parked``: once the run continues."""
    ms = PARKED_S * 1000 if is_parked else _ms(after_s(policy))
    connection.execute(_PUT_OFF, {"run_": run_id, "in_ms": ms})


def after_s(policy: str) -> int:
    """Return after how many seconds without viewers a policy applies."""
    return int(policy.partition(":")[2])


def _ms(after_s: int) -> int:
    """Return when a policy of so many seconds applies; a viewer is noted up to a third of them late."""
    return after_s * 4000 // 3


_OF_RUN = select(timers.c.data_json).where(timers.c.run_id == bindparam("run_"), timers.c.kind == DISCONNECT)
_PUT_OFF = (
    update(timers)
    .where(timers.c.run_id == bindparam("run_"), timers.c.kind == DISCONNECT)
    .values(due_ms=WALL_MS + bindparam("in_ms"))
)
