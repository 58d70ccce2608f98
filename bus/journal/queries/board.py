"""The board: how many runs there are in each state, exactly, and of each state those to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select

from bus.identity.access import rows_for
from bus.journal.states.codes import Reason
from config.database.engine import wall_ms
from config.database.tables import runs
from config.identity.principal import Principal, Verb

MOST_RUNS = 100
"""Runs of each group that the board shows at most; the counts are of all."""
DAY_MS = 86_400_000

ASKS = and_(runs.c.status == "waiting", runs.c.reason == Reason.APPROVAL)
"""The condition that a run waits for a person's answer."""
_LATEST = runs.c.created_ms.desc()
# As expressions, so that the database sorts the open runs instead of reading all runs in the order of an index.
_LATEST_OPEN = (runs.c.created_ms + 0).desc()
_LONGEST_OPEN = runs.c.created_ms + 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """What a principal sees on the board."""

    runs: Sequence[dict[str, Any]]
    """Questions first, then what runs, waits, is queued, failed within a day, and has ended otherwise."""
    counts: dict[str, int]
    """How many runs there are: ``running``, ``waiting``, ``queued``; ``questions``, the waiting ones that ask a person;
    and ``failed``, those that failed within a day."""


def board_rows(
    connection: Connection, principal: Principal, columns: Sequence[ColumnElement[Any]]
) -> tuple[list[Row[Any]], dict[str, int]]:
    """Return the rows of the runs on the board, and its counts."""
    seen = rows_for(principal, Verb.SEE, runs)
    open_ = and_(seen, runs.c.ended_ms.is_(None))
    # The index of failed runs has this condition.
    failed = and_(seen, runs.c.error_code.is_not(None), runs.c.ended_ms > wall_ms(connection) - DAY_MS)
    counts = _counts(connection, open_) | {"failed": _count(connection, failed)}
    groups: dict[str, tuple[ColumnElement[bool], ColumnElement[int]]] = {
        "questions": (and_(open_, ASKS), _LONGEST_OPEN),
        "running": (and_(open_, runs.c.status == "running"), _LATEST_OPEN),
        "waiting": (and_(open_, runs.c.status == "waiting", _is_no_question()), _LONGEST_OPEN),
        "queued": (and_(open_, runs.c.status == "queued"), _LONGEST_OPEN),
        "failed": (failed, runs.c.ended_ms.desc()),
    }
    queries = [select(*columns).where(which).order_by(order) for name, (which, order) in groups.items() if counts[name]]
    queries.append(select(*columns).where(seen, _ended_well()).order_by(_LATEST))
    return [row for query in queries for row in connection.execute(query.limit(MOST_RUNS))], counts


def _counts(connection: Connection, which: ColumnElement[bool]) -> dict[str, int]:
    counts = dict.fromkeys(("queued", "running", "waiting", "questions"), 0)
    query = select(runs.c.status, func.count(), func.count().filter(ASKS)).where(which).group_by(runs.c.status)
    for status, number, questions in connection.execute(query):
        counts[status] = number
        counts["questions"] += questions
    return counts


def _count(connection: Connection, which: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.count()).select_from(runs).where(which)).scalar_one())


def _is_no_question() -> ColumnElement[bool]:
    return or_(runs.c.reason.is_(None), runs.c.reason != Reason.APPROVAL)


def _ended_well() -> ColumnElement[bool]:
    return and_(runs.c.ended_ms.is_not(None), runs.c.error_code.is_(None))
