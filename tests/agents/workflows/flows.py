"""Short forms of workflows for tests, and what became of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
from sqlalchemy import select

from agents.handle import RunHandle
from agents.testing import AgentKit
from bus.journal.approvals import Decision
from bus.payloads import NodePayload, Payload, decode
from config.database.tables import steps

SOON_S = 5.0
START, END = {"id": "start", "type": "START"}, {"id": "end", "type": "END"}


def node(node_id: str, kind: str, more: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    return {"id": node_id, "type": kind, "config": config, **(more or {})}


def edges(*pairs: str) -> list[dict[str, str]]:
    """Return the edges of lines such as ``start a`` and ``choice a branch-0``."""
    split = [pair.split() for pair in pairs]
    return [
        {"source": source, "target": target, **({"source_handle": handle[0]} if handle else {})}
        for source, target, *handle in split
    ]


def chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a workflow that goes through these nodes one after another."""
    ids = ["start", *(node["id"] for node in nodes), "end"]
    pairs = [f"{first} {second}" for first, second in pairwise(ids)]
    return {"nodes": [START, *nodes, END], "edges": edges(*pairs)}


def until(handle: RunHandle, status: str) -> None:
    """Return when a run has this status."""
    wait_until(lambda: handle.status() == status, f"the run is {handle.status()} and not {status}")


def wait_until(is_true: Callable[[], bool], problem: str) -> None:
    until_s = time.monotonic() + SOON_S
    while not is_true():
        assert time.monotonic() < until_s, problem
        time.sleep(0.005)


def answer(handle: RunHandle, decision: str, call_id: str | None = None) -> None:
    """Answer a run's question, or the one about this call."""
    wait_until(lambda: bool(handle.approvals()), "the run asks nothing")
    questions = [question for question in handle.approvals() if call_id in (None, question["call_id"])]
    handle.decide(questions[0]["approval_id"], Decision(decision=decision))


def events(kit: AgentKit, handle: RunHandle) -> list[Payload]:
    """Return a run's log so far."""
    lines, _ = kit.runner.journal.readers.page(handle.run_id, handle.thread_id, 0)
    return [decode(line.data) for line in lines]


def states(kit: AgentKit, handle: RunHandle) -> dict[str, str]:
    """Return the last state of each node, by its path, with its branch."""
    nodes = [event for event in events(kit, handle) if isinstance(event, NodePayload)]
    return {
        "/".join(map(str, (*event.path, event.node_id))): " ".join(filter(None, [event.status, event.branch]))
        for event in nodes
    }


def results(kit: AgentKit, handle: RunHandle) -> dict[str, tuple[str, Any]]:
    """Return the status and the result of each step, by the node's path."""
    query = select(steps).where(steps.c.run_id == handle.run_id).order_by(steps.c.number)
    with kit.runner.journal.database.read() as connection:
        rows = connection.execute(query).all()
    return {row.node: (row.status, orjson.loads(row.result_json) if row.result_json else None) for row in rows}


def labels(kit: AgentKit, handle: RunHandle) -> dict[str, list[str]]:
    """Return the labels of each step's result, by the node's path."""
    with kit.runner.journal.database.read() as connection:
        rows = connection.execute(select(steps).where(steps.c.run_id == handle.run_id)).all()
    return {row.node: orjson.loads(row.labels_json or "[]") for row in rows}
