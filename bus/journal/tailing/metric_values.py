"""What the metrics observer has counted: totals, and the last day in slots of a minute; and what it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, bindparam, case, delete, func, literal, or_, select, true
from sqlalchemy.dialects import postgresql, sqlite

from bus.identity.access import rows_for
from config.database.engine import WALL_MS, wall_ms
from config.database.tables import events, metric_values, runs, steps
from config.identity.principal import Principal, Verb

SLOT_MS = 60 * 1000
DAY_MS = 24 * 3600 * 1000
KEPT_MS = 25 * 3600 * 1000
"""A day, and what its first hour has before it."""
TOTAL = 0
"""The slot of what was counted since the beginning."""
BASE = '{"base_ms":'
MAX_TENANTS = 200
"""Tenants whose queues are listed; the others are one."""


class Series(NamedTuple):
    """One series of a metric."""

    name: str
    labels: tuple[tuple[str, str], ...]
    """Names and values, in the metric's order."""


def add_values(connection: Connection, counts: Mapping[tuple[Series, int], float]) -> None:
    """Add counts to their series: each with the time (ms) of its event, to the total and to the slot of a day.

    A slot has no agents, models and tenants: a busy day is some ten thousand rows, however many of them there are.
    """
    now_ms: int = connection.execute(select(WALL_MS)).scalar_one()
    sums: dict[tuple[str, str, int], float] = {}
    for (series, at_ms), count in counts.items():
        keys = [(series.name, _json_of(series.labels), TOTAL)]
        if now_ms - at_ms < KEPT_MS and _is_summed(series.name):
            labels = tuple(label for label in series.labels if label[0] in _PARTS)
            keys.append((series.name, _json_of(labels), at_ms - at_ms % SLOT_MS))
        for key in keys:
            sums[key] = sums.get(key, 0.0) + count
    if not sums:
        return
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    c, inserting = metric_values.c, dialect.insert(metric_values)
    adding = inserting.on_conflict_do_update(
        index_elements=[c.name, c.labels_json, c.slot_ms], set_={"value": c.value + inserting.excluded.value}
    )
    names = "name labels_json slot_ms value".split()
    # Always in one order, since members that count at the same time lock the same rows.
    connection.execute(adding, [dict(zip(names, (*key, value), strict=True)) for key, value in sorted(sums.items())])


def _json_of(labels: Sequence[tuple[str, str]]) -> str:
    return orjson.dumps(dict(labels)).decode()


def _is_summed(name: str) -> bool:
    return name in _SUMMED or (name.startswith(_FIRST) and not name.endswith(":sum"))


def forget_old_slots(connection: Connection) -> None:
    """Delete the slots of more than a day ago."""
    c = metric_values.c
    connection.execute(delete(metric_values).where(c.slot_ms > TOTAL, c.slot_ms < WALL_MS - KEPT_MS))


def slot_sums(connection: Connection, since_ms: int, step_ms: int = SLOT_MS) -> list[tuple[int, str, str, float]]:
    """Return what was counted in each ``step_ms`` of at most a day, over all agents, models and tenants.

    Each sum has the beginning of its time (ms), the series' name, the value of its last label where that is an
    outcome, a status or a direction, and for calls their type before it: ``tool done``. A negative ``since_ms`` counts
    back from now.
    """
    now_ms: int = connection.execute(select(WALL_MS)).scalar_one()
    begin_ms = max(now_ms + since_ms if since_ms < 0 else since_ms, now_ms - DAY_MS)
    c = metric_values.c
    part = case(*((c.labels_json.endswith(f'":"{value}"}}', autoescape=True), value) for value in _LAST), else_="")
    kind = case((c.labels_json.startswith('{"type":"tool"', autoescape=True), "tool "), else_="")
    kind_and_part = (kind + part).label("part")
    slot = (c.slot_ms - c.slot_ms % step_ms).label("slot")
    query = select(slot, c.name, kind_and_part, func.sum(c.value).label("value"))
    is_meant = or_(c.name.in_(_SUMMED), c.name.startswith(_FIRST))
    begin_ms -= begin_ms % step_ms
    query = query.where(c.slot_ms > TOTAL, c.slot_ms >= begin_ms, is_meant).group_by(slot, c.name, kind_and_part)
    return [(row.slot, row.name, row.part, row.value) for row in connection.execute(query.order_by(slot))]


_LAST = "succeeded failed cancelled dead input output done refused unknown".split()
_PARTS = ("type", "outcome", "status", "direction")
_SUMMED = ("runs_started", "runs_ended", "activity_executions", "tokens", "cost_usd")
_FIRST = "time_to_first_token_seconds:"


def values_of(connection: Connection, since_ms: int = TOTAL) -> list[tuple[Series, int, float]]:
    """Return the totals of all series; or, with a time, what was counted in each slot since then."""
    c = metric_values.c
    query = select(metric_values).where(c.slot_ms == TOTAL if since_ms == TOTAL else c.slot_ms >= since_ms)
    rows = connection.execute(query.order_by(c.slot_ms, c.name, c.labels_json))
    return [(Series(row.name, tuple(orjson.loads(row.labels_json).items())), row.slot_ms, row.value) for row in rows]


class EndedModelCall(NamedTuple):
    """A model call that has ended."""

    model: str
    duration_ms: int
    first_token_ms: int | None
    """From its start to its first piece of text; None: it was not streamed."""
    output_tokens: int


def model_calls(connection: Connection, messages: Collection[tuple[str, str, str]]) -> dict[str, EndedModelCall]:
    """Return the calls of messages, each a run, a message and a step, by the step's id; repeated ones are left out."""
    if not messages:
        return {}
    run_ids, message_ids, step_ids = (sorted(set(part)) for part in zip(*messages, strict=True))
    rows = connection.execute(_STEPS, {"ids": step_ids}).all()
    blocks = connection.execute(_BLOCKS, {"runs": run_ids, "messages": message_ids})
    first_ms: dict[str, int] = {}
    for row in blocks:
        began_ms = _base_ms(row.head)
        first_ms[row.step_id] = min(began_ms, first_ms.get(row.step_id, began_ms))
    return {row.id: _model_call(row, first_ms.get(row.id)) for row in rows}


def _model_call(row: Any, first_ms: int | None) -> EndedModelCall:
    waited_ms = None if first_ms is None else max(0, first_ms - row.started_ms)
    tokens = orjson.loads(row.usage_json or "{}").get("output_tokens") or 0
    return EndedModelCall(row.name, max(0, row.ended_ms - row.started_ms), waited_ms, int(tokens))


def _base_ms(head: str) -> int:
    digits = head.removeprefix(BASE).partition(",")[0].partition("}")[0]
    return int(digits)


_STEPS = select(*steps.c["id", "name", "started_ms", "ended_ms", "usage_json"]).where(
    steps.c.id.in_(bindparam("ids", expanding=True)), steps.c.kind == "model", steps.c.ended_ms.is_not(None)
)
_BLOCKS = select(events.c.step_id, func.substr(events.c.data_json, 1, 40).label("head")).where(
    events.c.run_id.in_(bindparam("runs", expanding=True)),
    events.c.type == "block",
    events.c.message_id.in_(bindparam("messages", expanding=True)),
)


# --- what is, at this moment


class QueueState(NamedTuple):
    """The runs of a tenant that wait for a worker."""

    tenant: str
    depth: int
    oldest_s: float
    """Seconds since the oldest of them was accepted."""


MAX_OWNERS = 20
"""Tenants or principals of a queue that are listed, those with the most waiting runs."""


def queued_by_owner(
    connection: Connection, principal: Principal, default_queue: str, *, is_of_all: bool
) -> dict[str, dict[str, Any]]:
    """Return the queues in which runs wait: ``queued``, ``oldest_s`` and, by tenant or owner, ``waiting``.

    ``is_of_all``: of all tenants, and by tenant; otherwise of the runs that the principal sees, and by owner.
    """
    c, number = runs.c, func.count()
    queue = func.coalesce(c.queue, literal(default_queue)).label("queue")
    owner = c.tenant if is_of_all else c.principal
    which = true() if is_of_all else rows_for(principal, Verb.SEE, runs)
    counted = (
        select(queue, owner.label("owner"), number.label("queued"), func.min(c.created_ms).label("oldest_ms"))
        .where(which, c.ended_ms.is_(None), c.status == "queued")
        .group_by(queue, owner)
        .subquery()
    )
    name = counted.c.queue
    sums = func.sum(counted.c.queued).over(partition_by=name), func.min(counted.c.oldest_ms).over(partition_by=name)
    place = func.row_number().over(partition_by=name, order_by=(counted.c.queued.desc(), counted.c.owner))
    ranked = select(*counted.c["queue", "owner", "queued"], sums[0].label("all_queued"), sums[1].label("oldest_ms"))
    rows = ranked.add_columns(place.label("place")).subquery()
    queues: dict[str, dict[str, Any]] = {}
    now_ms = wall_ms(connection)
    for row in connection.execute(select(rows).where(rows.c.place <= MAX_OWNERS).order_by(rows.c.place)):
        oldest_s = max(0, now_ms - row.oldest_ms) / 1000
        facts = queues.setdefault(row.queue, {"queued": int(row.all_queued), "oldest_s": oldest_s, "waiting": {}})
        facts["waiting"][row.owner] = row.queued
    return queues


def queue_states(connection: Connection) -> list[QueueState]:
    """Return the queues of the tenants with the most waiting runs; the others together as ``other``."""
    c = runs.c
    waiting = (
        select(c.tenant, func.count(), func.min(c.created_ms), WALL_MS)
        .where(c.ended_ms.is_(None), c.status == "queued")
        .group_by(c.tenant)
        .order_by(func.count().desc(), c.tenant)
    )
    rows = [QueueState(row[0], row[1], max(0.0, (row[3] - row[2]) / 1000)) for row in connection.execute(waiting)]
    return [*rows[:MAX_TENANTS], *_together(rows[MAX_TENANTS:])]


def _together(rows: Sequence[QueueState]) -> Iterable[QueueState]:
    if rows:
        yield QueueState("other", sum(row.depth for row in rows), max(row.oldest_s for row in rows))


def open_runs(connection: Connection) -> dict[str, int]:
    """Return how many runs are open, by status."""
    query = select(runs.c.status, func.count()).where(runs.c.ended_ms.is_(None)).group_by(runs.c.status)
    return {row[0]: row[1] for row in connection.execute(query)}
