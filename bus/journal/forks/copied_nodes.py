"""The steps of a workflow that a retry takes from the run that it continues from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select

from bus.journal.log.commit import Commit, record
from bus.journal.records.steps import StepEnded, StepStarted, steps_of
from bus.journal.states.conditions import note_copied
from bus.payloads import NodePayload, Payload, decode
from config.clock import stamp
from config.database.tables import events
from config.definitions.workflows.graph import COMPENSATION
from config.ids import new_id

Step = Mapping[str, Any]


def copy_nodes(connection: Connection, run: Any, origin_id: str, redo: Collection[str]) -> None:
    """Copy into a run that was just inserted the steps of its origin that are done, but those at the paths ``redo``.

    A copy costs nothing. The call that would have undone a node is registered again with it; one that did not undo it
    is copied as it ended, and not made again. The log begins with the
    nodes of the whole graph; of the items of a FOR_EACH the steps alone say that they are done.
    """
    kept = [step for step in steps_of(connection, origin_id) if _is_kept(step, redo)]
    ids = {step["id"]: new_id("step") for step in kept}
    over = [(_started(step, ids), _ended(step, ids)) for step in kept if not _is_planned(step)]
    planned = [_started(step, ids) for step in kept if _is_planned(step)]
    copies = enumerate(_events(connection, origin_id, kept, ids), 2)
    numbered = [replace(payload, seq=seq, at=stamp()) for seq, payload in copies]
    record(connection, run, 0, Commit(recorded=over, started=planned), numbered)
    note_copied(connection, run.run_id, 1 + len(numbered), ())


def _is_kept(step: Step, redo: Collection[str]) -> bool:
    node = step["node"]
    if node is None or node.startswith("~") or node.removesuffix(COMPENSATION) in redo:
        return False
    return bool((step["status"] == "done") != node.endswith(COMPENSATION))


def _is_planned(step: Step) -> bool:
    return step["node"].endswith(COMPENSATION) and step["status"] in ("cancelled", "planned")


def _started(step: Step, ids: Mapping[str, str]) -> StepStarted:
    return StepStarted(
        id=ids[step["id"]],
        kind=step["kind"],
        name=step["name"],
        call_id=step["call_id"],
        node=step["node"],
        input=_json(step["input_json"]),
        effect=step["effect"],
        arguments_digest=step["arguments_digest"],
        idempotency_key=new_id("key"),
        status="planned" if _is_planned(step) else "started",
    )


def _ended(step: Step, ids: Mapping[str, str]) -> StepEnded:
    return StepEnded(
        id=ids[step["id"]],
        status=step["status"],
        cost_usd=0.0,
        result=_json(step["result_json"]),
        labels=frozenset(_json(step["labels_json"]) or ()),
    )


def _json(text: str | None) -> Any:
    return orjson.loads(text) if text is not None else None


def _events(connection: Connection, run_id: str, kept: Sequence[Step], ids: Mapping[str, str]) -> Iterator[Payload]:
    """Yield that the kept nodes are done, as far as the origin's log has that."""
    top = {step["id"] for step in kept if "/" not in step["node"]}
    for data_json in connection.execute(_NODES, {"run_": run_id}).scalars():
        payload = decode(data_json)
        if isinstance(payload, NodePayload) and payload.status == "done" and payload.step_id in top:
            yield replace(payload, step_id=ids[str(payload.step_id)], content=f"Taken from {run_id}.")


_NODES = (
    select(events.c.data_json)
    .where(events.c.run_id == bindparam("run_"), events.c.type == "node")
    .order_by(events.c.seq)
)
