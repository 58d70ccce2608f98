"""The steps of one run as clients see them: in order, those of one node, the items of a FOR_EACH, or with spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import orjson
from sqlalchemy import ColumnElement, Connection, Integer, and_, bindparam, case, cast, func, literal, null, or_, select

from bus.journal.log.results import held_results
from bus.journal.paging import Pages, StepPlace, present
from bus.journal.records.steps import RESULT_IN
from config.clock import stamp
from config.database.tables import runs, steps


class StepFilter(TypedDict, total=False):
    """Which steps; an absent field does not restrict."""

    node: str | None
    """Only those of the node with this path."""
    under: str | None
    """Only the items of the FOR_EACH with this path, those that have failed first, otherwise by their index."""
    after: StepPlace | None
    """Only those behind this place."""
    with_spans: bool
    """Whether each has the operations of its call, up to ``MOST_SPANS``."""


MOST_SPANS = 200
BEGINNING = StepPlace(0, -1)
ITEM = "item"
"""The kind of the step of an item of a FOR_EACH, which is written when the item is at its end."""
_COLUMNS = steps.c[
    *("id", "number", "kind", "name", "node", "call_id", "effect", "status", "attempt", "input_json", "result_json"),
    *("started_ms", "ended_ms", "usage_json", "cost_usd"),
]

_SIZE = func.coalesce(steps.c.result_json, "").concat(func.coalesce(steps.c.spans_json, "")).label("size_")


def steps_page(
    connection: Connection,
    run_id: str,
    *,
    node: str | None = None,
    under: str | None = None,
    after: StepPlace | None = None,
    with_spans: bool = False,
    limit: int,
) -> tuple[list[dict[str, Any]], StepPlace | None]:
    """Return steps behind a place, and where the next page would begin; None where this is the last one.

    The other arguments are those of ``StepFilter``.
    """
    group, number = _order(under)
    order = (group, number) if under is not None else (number,)
    columns = *_COLUMNS, *((steps.c.spans_json, _SIZE) if with_spans else (null().label("spans_json"),))
    query = select(*columns, group.label("group_"), number.label("number_")).where(steps.c.run_id == run_id)
    if node is not None:
        query = query.where(steps.c.node == node)
    if under is not None:
        query = query.where(*_items_of(under))
    query = query.where(_is_behind(group, number, after or BEGINNING)).order_by(*order).limit(limit)
    rows, is_cut = Pages(query=query, text=_SIZE if with_spans else steps.c.result_json, order=order).read(connection)
    held = held_results(connection, {run_id}, [name for row in rows if (name := _reference(row)) is not None])
    following = StepPlace(rows[-1].group_, rows[-1].number_) if is_cut or len(rows) == limit else None
    return [_shown(row, held) for row in rows], following


def _order(under: str | None) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """Return by what steps are ordered: items by whether they are done and by their index, others by their number."""
    if under is None:
        return literal(0), steps.c.number
    index = func.substr(steps.c.node, len(under) + 2)
    return case((steps.c.status == "done", 1), else_=0), cast(index, Integer)


def _items_of(path: str) -> Sequence[ColumnElement[bool]]:
    """Return the conditions on the items of a FOR_EACH; those of one inside of its body have its name."""
    loop_id = path.rpartition("/")[2]
    return steps.c.kind == ITEM, steps.c.name == loop_id, steps.c.node.startswith(f"{path}/", autoescape=True)


def _is_behind(group: ColumnElement[int], number: ColumnElement[int], after: StepPlace) -> ColumnElement[bool]:
    return or_(group > after.group, and_(group == after.group, number > after.number))


def _reference(row: Any) -> str | None:
    """Return the id of the message that has a step's result; None where the step has it itself."""
    if not row.result_json or RESULT_IN not in row.result_json:
        return None
    result = orjson.loads(row.result_json)
    return result[RESULT_IN] if isinstance(result, Mapping) and result.keys() == {RESULT_IN} else None


def _shown(row: Any, held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step as the API shows it: with its result where it is done, else with why it is not."""
    reference = _reference(row)
    result = held.get(reference) if reference is not None else _loaded(row.result_json)
    fields = {
        "id": row.id,
        "number": row.number,
        "kind": row.kind,
        "name": row.name,
        "node": row.node,
        "call_id": row.call_id,
        "effect": row.effect,
        "status": row.status,
        "attempt": row.attempt,
        "input": _loaded(row.input_json),
        "result": result if row.status == "done" else None,
        "error": None if row.status == "done" else _sentence(result),
        "started_at": stamp(row.started_ms),
        "ended_at": stamp(row.ended_ms) if row.ended_ms is not None else None,
        "usage": _loaded(row.usage_json),
        "cost_usd": row.cost_usd,
        "duration_ms": max(0, row.ended_ms - row.started_ms) if row.ended_ms is not None else None,
        "spans": _loaded(row.spans_json)[:MOST_SPANS] if row.spans_json is not None else None,
    }
    return present(fields)


def _loaded(text: str | None) -> Any:
    return orjson.loads(text) if text is not None else None


def _sentence(result: Any) -> str | None:
    """Return why a step is not done, as it is recorded: as a node's error, or as what a call returned."""
    error = result.get("error") if isinstance(result, Mapping) else None
    if isinstance(error, Mapping):
        return str(error.get("message", ""))
    return result.removeprefix("Error: ") if isinstance(result, str) else None


# --- what runs do at this moment --------------------------------------------------------------------

LATEST_STEPS = 32
"""Steps of a run among which its open ones are looked for: it has thousands of steps, and few open ones."""
_NEWEST = select(runs.c.id, select(func.max(steps.c.number)).where(steps.c.run_id == runs.c.id).label("number"))
_NEWEST_OF = _NEWEST.where(runs.c.id.in_(bindparam("runs_", expanding=True))).subquery()
_CURRENT = (
    select(*steps.c["run_id", "kind", "name", "node", "attempt", "started_ms"])
    .join(_NEWEST_OF, and_(steps.c.run_id == _NEWEST_OF.c.id, steps.c.number > _NEWEST_OF.c.number - LATEST_STEPS))
    .where(steps.c.status == "started")
    .order_by(steps.c.number)
)


def current_steps(connection: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the call or node that each run is at: of several open ones the last, which is an item, not its loop.

    Runs without an open step among their latest ones are left out.
    """
    if not run_ids:
        return {}
    rows = connection.execute(_CURRENT, {"runs_": run_ids})
    return {row.run_id: _at(row) for row in rows}


def _at(row: Any) -> dict[str, Any]:
    # A later attempt keeps the time of the first one: it would be that of a wait for a person, too.
    started_at = stamp(row.started_ms) if row.attempt == 1 else None
    return present({"kind": row.kind, "name": row.name, "node": row.node, "started_at": started_at})


# --- calls with their spans -------------------------------------------------------------------------


def call_spans(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the calls that have ended, in order: step, kind, name, outcome, and ``spans`` as recorded."""
    columns = steps.c["id", "number", "kind", "name", "call_id", "status", "spans_json"]
    query = select(*columns).where(steps.c.run_id == run_id, steps.c.ended_ms.is_not(None))
    rows = connection.execute(query.order_by(steps.c.number))
    return [
        {
            "step_id": row.id,
            "number": row.number,
            "kind": row.kind,
            "name": row.name,
            **({"call_id": row.call_id} if row.call_id is not None else {}),
            "outcome": row.status,
            "spans": orjson.loads(row.spans_json) if row.spans_json is not None else [],
        }
        for row in rows
    ]
