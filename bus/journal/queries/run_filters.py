"""Which runs a list or a count is of, as conditions of SQL; the orders of lists, with the places in them; counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, func, or_, select, tuple_

from bus.identity.access import rows_for
from bus.journal.paging import RunPlace, has_correlation
from bus.journal.states.conditions import OPEN
from bus.payloads import TERMINAL
from config.clock import stamp
from config.database.engine import READ_ONCE
from config.database.tables import runs, steps
from config.errors import BadRequest
from config.identity.principal import Principal, Verb

STATUSES = (*OPEN, *sorted(TERMINAL))
ANY_CODE = "any"
SUFFIX_CHARS = 6
"""The fewest characters at the end of a run's id that find it."""
ID_START, ID_CHARS = "run_", 64
"""How a run's id begins, and the most characters that it has; behind its start are lower-case letters and digits."""
DAY_MS = 86_400_000


class RunFilter(TypedDict, total=False):
    """A filter for runs; an absent field and None do not restrict."""

    status: str | None
    """A status, or ``open`` for all runs that have not ended."""
    agent: str | None
    thread_id: str | None
    owner: str | None
    """The principal that the runs belong to."""
    trace_id: str | None
    is_retried: bool | None
    """Whether another run is a retry of it."""
    is_child: bool | None
    """Whether a run has delegated it."""
    correlation_id: str | None
    """The one that a client chose, or the trace id of runs for which none was chosen."""
    since_ms: int | None
    """The earliest acceptance, in ms since 1970; a negative number counts back from now. With ``code``: the earliest
    end."""
    until_ms: int | None
    """The latest one, likewise."""
    text: str | None
    """Words that the title has, in any case; or the beginning of a run's id, or its end from ``SUFFIX_CHARS`` on."""
    code: str | None
    """The code of the error that ended it; ``ANY_CODE``: it failed."""
    queue: str | None
    default_queue: str
    """The queue of the runs that name none; beside ``queue``."""
    kind: str | None
    model: str | None
    """The model that it was accepted with."""
    tool: str | None
    """A tool that it has called."""


def matching(principal: Principal, **filters: Unpack[RunFilter]) -> ColumnElement[bool]:
    """Return the condition that a run is one of these and that the principal sees it.

    Raises:
        BadRequest: there is no such status.
    """
    conditions = [rows_for(principal, Verb.SEE, runs), *_of_status(filters.get("status"))]
    columns = {"agent": "agent_id", "owner": "principal"}
    values = {name: filters.get(name) for name in ("agent", "thread_id", "owner", "trace_id", "kind", "model")}
    conditions += [runs.c[columns.get(name, name)] == value for name, value in values.items() if value is not None]
    if (correlation_id := filters.get("correlation_id")) is not None:
        conditions.append(has_correlation(correlation_id))
    if (tool := filters.get("tool")) is not None:
        its = (steps.c.run_id == runs.c.id, steps.c.kind == "tool", steps.c.name == tool)
        conditions.append(exists(select(steps.c.id).where(*its)))
    if (is_child := filters.get("is_child")) is not None:
        conditions.append(runs.c.parent_id.is_not(None) if is_child else runs.c.parent_id.is_(None))
    if (is_retried := filters.get("is_retried")) is not None:
        conditions.append(_retry_of() if is_retried else ~_retry_of())
    if (queue := filters.get("queue")) is not None:
        is_default = queue == filters.get("default_queue")
        conditions.append(or_(runs.c.queue == queue, runs.c.queue.is_(None)) if is_default else runs.c.queue == queue)
    if (text := filters.get("text")) is not None:
        conditions.append(_has_text(text))
    return and_(*conditions, *_within(filters.get("code"), filters.get("since_ms"), filters.get("until_ms")))


def _of_status(status: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions on the status; for open runs also the one that their index has."""
    if status is None:
        return []
    if status != "open" and status not in STATUSES:
        raise BadRequest(f"'{status[:40]}' is not a status; use open, {', '.join(STATUSES)}.")
    if status == "open":
        return [runs.c.ended_ms.is_(None), runs.c.status.in_(OPEN)]
    return [runs.c.status == status, *([runs.c.ended_ms.is_(None)] if status in OPEN else [])]


def _retry_of() -> ColumnElement[bool]:
    later = runs.alias("later")
    return exists(select(later.c.id).where(later.c.origin_id == runs.c.id, later.c.origin_json.contains('"retry"')))


def _has_text(text: str) -> ColumnElement[bool]:
    words = text.split()
    in_title = and_(*(runs.c.title.icontains(word, autoescape=True) for word in words))
    if len(words) != 1 or not text.isascii() or not text.strip().replace("_", "").isalnum():
        return in_title
    word = words[0].lower()
    if word.startswith(ID_START):  # a title that has it as a word is not looked for, so that the id's index answers
        return and_(runs.c.id >= word, runs.c.id <= word.ljust(ID_CHARS, "z"))
    return or_(in_title, runs.c.id.endswith(word, autoescape=True)) if len(word) >= SUFFIX_CHARS else in_title


def _within(code: str | None, since_ms: int | None, until_ms: int | None) -> list[ColumnElement[bool]]:
    """Return the conditions on the time of the acceptance; of failures on that of the end, which their index has."""
    time_ms = runs.c.created_ms if code is None else runs.c.ended_ms
    conditions: list[ColumnElement[bool]] = []
    if code is not None:
        since_ms = since_ms if since_ms is not None else 0
        conditions.append(runs.c.error_code.is_not(None) if code == ANY_CODE else runs.c.error_code == code)
    conditions += [time_ms >= _moment(since_ms)] if since_ms is not None else []
    return conditions + ([time_ms <= _moment(until_ms)] if until_ms is not None else [])


def _moment(ms: int) -> Any:
    return ms if ms >= 0 else READ_ONCE + ms


# --- the orders of a list


class RunOrder:
    """One of ``ORDERS``, for the runs of a filter.

    ``longest`` lists ended runs by the time from their acceptance to their end, and open ones, where the filter is for
    them, by their acceptance. ``dearest`` lists runs whose cost is known, which is after their end.
    """

    def __init__(self, name: str, filters: RunFilter) -> None:
        self._name = name
        is_open = filters.get("status") in ("open", *OPEN)
        columns = {"dearest": runs.c.cost_usd} | ({} if is_open else {"longest": runs.c.duration_ms})
        self._column = columns.get(name, runs.c.created_ms)
        self._is_ascending = name == "oldest" or (name == "longest" and is_open)
        # These runs are few among all: as an expression the database sorts them, instead of reading all runs in order.
        are_few = is_open or filters.get("code") is not None or (filters.get("text") or "").startswith(ID_START)
        is_sorted = self._column is runs.c.created_ms and are_few
        self._value: ColumnElement[Any] = self._column + 0 if is_sorted else self._column

    @property
    def columns(self) -> tuple[ColumnElement[Any], ...]:
        """What the runs are ordered by."""
        pair = (self._value, runs.c.id)
        return pair if self._is_ascending else tuple(column.desc() for column in pair)

    def page(self, query: Select[Any], limit: int, before: RunPlace | None) -> Select[Any]:
        """Return the query for a page: the runs behind a place, or the first ones."""
        if self._column is not runs.c.created_ms:  # as the index has it
            query = query.where(self._column.is_not(None))
        if before is not None:
            own, last = tuple_(self._value, runs.c.id), tuple_(before.value, before.run_id)
            query = query.where(own > last if self._is_ascending else own < last)
        return query.order_by(*self.columns).limit(limit)

    def place_of(self, row: Any) -> RunPlace:
        """Return the place of a run, given as its row."""
        return RunPlace(row._mapping[self._column.name], row.id, self._name)


# --- how many there are

MOST_GROUPS = 100
MOST_AGENTS = 10
"""Agents that are named for each code of an error."""
_GROUPS: Mapping[str, ColumnElement[Any]] = {
    "status": runs.c.status,
    "agent": runs.c.agent_id,
    "code": runs.c.error_code,
    "queue": func.coalesce(runs.c.queue, bindparam("default_queue")),
    "owner": runs.c.principal,
}
NODE = "node"
GROUPS = (*_GROUPS, NODE)
"""By what runs are counted."""


def count_runs(connection: Connection, principal: Principal, by: str, **filters: Unpack[RunFilter]) -> dict[str, Any]:
    """Return how many runs there are by one of ``GROUPS``, the largest groups first, and a ``rest`` of the others.

    By ``code`` the runs are those that failed, within a day unless the filter says since when; each code has its
    latest run and the agents that failed with it. By ``node`` they are open runs of workflows.
    """
    if by == NODE:
        return _count_by_node(connection, matching(principal, **filters))
    if by == "code":
        since_ms = filters.get("since_ms")
        filters = {**filters, "code": filters.get("code") or ANY_CODE}
        filters["since_ms"] = -DAY_MS if since_ms is None else since_ms
    group, which = _GROUPS[by], matching(principal, **filters)
    number = func.count()
    query = select(group.label("value"), number.label("count"), func.sum(number).over(), func.count().over())
    query = query.where(which).group_by(group).order_by(number.desc(), group).limit(MOST_GROUPS)
    values = {"default_queue": filters.get("default_queue", "")} if by == "queue" else {}
    rows = connection.execute(query, values).all()
    groups: list[dict[str, Any]] = [{"value": row[0], "count": row[1]} for row in rows]
    total, number_of_groups = (int(rows[0][2]), rows[0][3]) if rows else (0, 0)
    if by == "code":
        causes = _causes(connection, which, [group["value"] for group in groups])
        groups = [group | causes[group["value"]] for group in groups]
    left = {"groups": number_of_groups - len(groups), "count": total - sum(group["count"] for group in groups)}
    return {"by": by, "total": total, "groups": groups} | ({"rest": left} if left["groups"] else {})


def _count_by_node(connection: Connection, which: ColumnElement[bool]) -> dict[str, Any]:
    """Return how many open runs have begun each node and not ended it; of a FOR_EACH a run counts once for a node."""
    is_under_way = steps.c.status.in_(("planned", "started", "waiting"))
    query = select(steps.c.run_id, steps.c.node).join(runs, runs.c.id == steps.c.run_id).distinct()
    rows = connection.execute(query.where(which, runs.c.ended_ms.is_(None), steps.c.node.is_not(None), is_under_way))
    places = {(row.run_id, row.node.rpartition("/")[2]) for row in rows}
    nodes = Counter(node for _, node in places).most_common(MOST_GROUPS)
    total = len({run_id for run_id, _ in places})
    return {"by": NODE, "total": total, "groups": [{"value": node, "count": count} for node, count in nodes]}


def _causes(connection: Connection, which: ColumnElement[bool], codes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the latest run of each code, its end, and the agents with the most failures."""
    code, agent, number = runs.c.error_code, runs.c.agent_id, func.count()
    ours = which, code.in_(codes)
    place = func.row_number().over(partition_by=code, order_by=(runs.c.ended_ms.desc(), runs.c.id.desc()))
    ends = select(code, runs.c.id, runs.c.ended_ms, place.label("place")).where(*ours).subquery()
    place = func.row_number().over(partition_by=code, order_by=(number.desc(), agent))
    counted = select(code, agent, number.label("count"), place.label("place")).where(*ours)
    agents = counted.group_by(code, agent).subquery()
    causes: dict[str, dict[str, Any]] = {}
    for row in connection.execute(select(ends).where(ends.c.place == 1)):
        causes[row.error_code] = {"latest_at": stamp(row.ended_ms), "latest_run_id": row.id, "agents": []}
    query = select(agents).where(agents.c.place <= MOST_AGENTS).order_by(agents.c.place)
    for row in connection.execute(query):
        causes[row.error_code]["agents"].append({"agent": row.agent_id, "count": row._mapping["count"]})
    return causes
