"""Workflows to draw: small ones by hand, large ones at random."""

from __future__ import annotations

import random
from typing import Any

Workflow = dict[str, list[dict[str, str]]]


def workflow(*edges: str, **types: str) -> Workflow:
    """Return the workflow with these edges, ``source target handle``; a node without a type is a FUNCTION."""
    split = [edge.split() for edge in edges]
    ids = dict.fromkeys(end for source, target, *_ in split for end in (source, target))
    default = {"start": "START", "end": "END"}
    return {
        "nodes": [{"id": id_, "type": types.get(id_, default.get(id_, "FUNCTION"))} for id_ in ids],
        "edges": [dict(zip(("source", "target", "source_handle"), each, strict=False)) for each in split],
    }


LOOP = (
    "start items",
    "items fetch foreach-body",
    "fetch inner",
    "inner price foreach-body",
    "price inner",
    "inner keep",
    "keep items",
    "items end",
)
LOOPS = workflow(*LOOP, items="FOR_EACH", inner="FOR_EACH")


def random_workflow(seed: int, size: int = 60) -> Workflow:
    """Return a workflow of about ``size`` nodes: choices, branches, loops and caught errors, one after another."""
    chance = random.Random(seed)
    edges: list[str] = []
    names = (f"{chance.choice(('load', 'check', 'send_invoice_of'))}_{number}" for number in range(10 * size))
    types: dict[str, str] = {}

    def chain(start: str, length: int, handle: str) -> str:
        for number in range(length):
            name = next(names)
            edges.append(f"{start} {name} {handle if not number else ''}")
            start = name
        return start

    def branches(start: str, handles: list[str]) -> str:
        ends = [chain(start, chance.randint(1, 3), handle) for handle in handles]
        ends = [loop(end, 1) if chance.random() < 0.2 else end for end in ends]
        join = next(names)
        edges.extend(f"{end} {join}" for end in ends)
        if chance.random() < 0.3:
            edges.append(f"{start} {join} {handles[0]}-more")
        return join

    def loop(start: str, depth: int) -> str:
        types[start] = "FOR_EACH"
        last = chain(start, chance.randint(1, 3), "foreach-body")
        if depth:
            last = loop(last, depth - 1)
        if chance.random() < 0.5:
            edges.append(f"{last} {start}")
        return chain(start, 1, "")

    steps: list[Any] = [
        lambda at: branches(at, [f"branch-{number}" for number in range(chance.randint(1, 4))] + ["default"]),
        lambda at: branches(at, [f"parallel-{number}" for number in range(chance.randint(2, 6))]),
        lambda at: branches(at, ["", "error"]),
        lambda at: loop(chain(at, 1, ""), chance.randint(0, 2)),
    ]
    at = chain("start", 1, "")
    while len(edges) < size:
        at = chance.choice(steps)(at)
    return workflow(*edges, f"{at} end", **types)
