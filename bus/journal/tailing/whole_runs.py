"""One run as a whole, after its end: its row, its log and its steps, for observers that make something of all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import orjson
from sqlalchemy import Row, bindparam, select

from bus.journal.log.results import refers, with_results_of
from bus.journal.paging import Pages
from bus.payloads import Payload, decode
from config.database.engine import Database
from config.database.tables import events, messages, runs, steps

PAGE_ROWS = 500
_RUN = """
    id kind thread_id tenant agent_id agent_name model status reason trace_id correlation_id parent_span parent_step
    origin_id private created_ms ended_ms
""".split()
_STEP = """
    id number kind name node call_id status attempt usage_json cost_usd spans_json started_ms ended_ms
""".split()


class RunReader:
    """Reads runs that have ended, page by page; safe for any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, run_id: str) -> Row[Any] | None:
        """Return the run's row; None where it was removed."""
        with self._database.read() as connection:
            return connection.execute(_RUN_ROW, {"run_": run_id}).first()

    def events(self, run_id: str, types: Collection[str], *, with_results: bool = False) -> Iterator[Payload]:
        """Yield the run's committed events of these types in order; long results only ``with_results``."""
        values = {"run_": run_id, "after": 0, "types": sorted(types)}
        is_cut = True
        while is_cut:
            with self._database.read() as connection:
                rows, is_cut = _EVENTS.read(connection, values)
            for row in rows:
                payload = decode(row.data_json)
                yield self._with_result(run_id, payload) if with_results and refers(payload) else payload
            is_cut = is_cut or len(rows) == PAGE_ROWS
            values["after"] = rows[-1].seq if rows else 0

    def _with_result(self, run_id: str, payload: Payload) -> Payload:
        """Return the event with its result, which is read by itself: a page of long ones would fill the memory."""
        with self._database.read() as connection:
            return with_results_of(connection, [run_id], [payload])[0]

    def steps(self, run_id: str) -> Iterator[Row[Any]]:
        """Yield the run's steps in order, without their inputs and results."""
        values, is_cut = {"run_": run_id, "after": 0}, True
        while is_cut:
            with self._database.read() as connection:
                rows, is_cut = _STEPS.read(connection, values)
            yield from rows
            is_cut = is_cut or len(rows) == PAGE_ROWS
            values["after"] = rows[-1].number if rows else 0

    def nodes(self, run_id: str) -> Sequence[Row[Any]]:
        """Return the ``id``, ``node`` and ``started_ms`` of a workflow's steps, in order."""
        with self._database.read() as connection:
            rows: Sequence[Row[Any]] = [*connection.execute(_NODES, {"run_": run_id})]
        return rows

    def input_of(self, run_id: str) -> str:
        """Return the text of the message that the run answers; empty where it was removed."""
        with self._database.read() as connection:
            data = connection.execute(_INPUT, {"run_": run_id}).scalar()
        return str(orjson.loads(data).get("content") or "") if data is not None else ""


_RUN_ROW = select(*(runs.c[name] for name in _RUN)).where(runs.c.id == bindparam("run_"))
_EVENTS = Pages(
    query=select(events.c.seq, events.c.data_json)
    .where(events.c.run_id == bindparam("run_"), events.c.seq > bindparam("after"))
    .where(events.c.type.in_(bindparam("types", expanding=True)))
    .order_by(events.c.seq)
    .limit(PAGE_ROWS),
    text=events.c.data_json,
    order=(events.c.seq,),
)
_STEPS = Pages(
    query=select(*(steps.c[name] for name in _STEP))
    .where(steps.c.run_id == bindparam("run_"), steps.c.number > bindparam("after"))
    .order_by(steps.c.number)
    .limit(PAGE_ROWS),
    text=steps.c.spans_json,
    order=(steps.c.number,),
)
_NODES = (
    select(steps.c.id, steps.c.node, steps.c.started_ms)
    .where(steps.c.run_id == bindparam("run_"), steps.c.node.is_not(None))
    .order_by(steps.c.number)
)
_INPUT = (
    select(messages.c.data_json)
    .join(runs, (runs.c.id == messages.c.run_id) & (runs.c.thread_key == messages.c.thread_key))  # forks have copies
    .where(messages.c.run_id == bindparam("run_"), messages.c.role == "user")
    .order_by(messages.c.number)
    .limit(1)
)
