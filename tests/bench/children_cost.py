"""What a child run costs, with its share of its parent, beside the same run that a client starts: CPU of all processes.

    PYTHONPATH=. .venv/bin/python -m tests.bench.children_cost [--rounds 3] [--quick] [--json]

A parent calls 16 agents at once, and each of them calls one tool. Two workers execute them. Families and runs without
parents take turns, 16 at a time, over HTTP, Redis and SQLite; the model answers at once.
"""

from __future__ import annotations

import contextlib
import http.client
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import func, select

from cli.supervisor.serving import worker_command
from config.database.engine import Database, open_database
from config.database.tables import runs
from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, Process, usage_of
from tests.bench.report import Bar, Figure, Report
from tests.model_server import Call, ModelServer, Turn

CHILDREN, FAMILIES = 16, 20
PARENT, CHILD = "parent", "child"
AGENT = """\
name: {name}
model: openai/scripted
api_base: {url}
system_prompt: You are the {name}.
tools: [{tool}]
"""
PATIENCE_S = 120


def measure(effort: Effort) -> Report:
    """Return the CPU time of a child with its share of its parent, and of the same run alone."""
    families = effort.pick(FAMILIES, 2)
    costs: dict[str, list[float]] = {PARENT: [], CHILD: []}
    seconds: dict[str, list[float]] = {PARENT: [], CHILD: []}
    held = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        model = stack.enter_context(ModelServer(respond=_respond))
        rig = stack.enter_context(rigs.callboard(folder, model.url))
        assert rig.agents is not None
        assert rig.settings is not None
        _second_worker(stack, rig, folder)
        database = stack.enter_context(contextlib.closing(open_database(rig.settings.database)))
        for name, tool in ((PARENT, f"'agent:{CHILD}'"), (CHILD, "calculator")):
            (rig.agents / f"{name}.yaml").write_text(AGENT.format(name=name, tool=tool, url=model.url))
        for name in (PARENT, CHILD):
            _wave(rig, database, name)
        for number in range(effort.rounds):
            for name in (PARENT, CHILD):
                before, began_s = usage_of(rig.pids), time.monotonic()
                held += sum(_wave(rig, database, name) for _ in range(families))
                each = families * CHILDREN
                costs[name].append(sum(usage_of(rig.pids).since(before).values()) / each * 1000)
                seconds[name].append((time.monotonic() - began_s) / each * 1000)
            say(f"round {number + 1}: CPU {costs[PARENT][-1]:.1f} / {costs[CHILD][-1]:.1f} ms")
    note = "beside: the same run, started by a client"
    return Report(
        name="children_cost",
        title=f"{families} families of {CHILDREN} children on two workers",
        figures=[
            Figure(
                name="CPU of web + workers + Redis a child, its share of its parent included",
                unit="ms",
                rounds=costs[PARENT],
                references=costs[CHILD],
                bar=Bar(compares="ratio", limit=1.3),
                note=note,
            ),
            Figure(name="time a child", unit="ms", rounds=seconds[PARENT], references=seconds[CHILD], note=note),
            Figure(
                name="parents that waited and had an owner",
                unit="",
                rounds=[float(held)],
                bar=Bar(compares="figure", limit=0),
            ),
        ],
    )


def _second_worker(stack: contextlib.ExitStack, rig: rigs.Rig, folder: Path) -> None:
    assert rig.settings is not None
    log = folder / "worker-2.log"
    worker = Process("worker-2", worker_command("worker-2", None), log, env=rigs.environment_of(rig.settings))
    stack.callback(worker.stop)
    worker.wait_for("worker is warm")
    worker.wait_for(" ready.")
    rig.pids["worker-2"] = worker.pid


def _respond(body: Mapping[str, Any]) -> Turn:
    """Call 16 children, or one tool; with results, answer."""
    if any(message["role"] == "tool" for message in body["messages"]):
        return Turn(text="Done.")
    tool = body["tools"][0]["function"]["name"]
    if tool == CHILD:
        return Turn(calls=[Call(name=tool, arguments={"message": f"Number {number}."}) for number in range(CHILDREN)])
    return Turn(calls=[Call(name=tool, arguments={"expression": "6 * 7"})])


def _wave(rig: rigs.Rig, database: Database, agent_id: str) -> int:
    """Have one parent, or 16 runs of the child's agent, run to their end; return how many parents held a slot."""
    connection = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=60)
    for _ in range(1 if agent_id == PARENT else CHILDREN):
        body = orjson.dumps({"agent": agent_id, "input": "Go."})
        connection.request("POST", "/v1/runs", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 202:
            raise NotReady(f"the run was refused: {answer.status} {text.decode()[:300]}")
    connection.close()
    return _until_ended(database)


def _until_ended(database: Database) -> int:
    """Return, when no run is open, how many runs were seen that waited and had an owner."""
    count_open = select(func.count()).select_from(runs).where(runs.c.ended_ms.is_(None))
    waits = runs.c.status == "waiting", runs.c.owner.is_not(None)
    held, ends_s = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        with database.read() as connection:
            held = max(held, connection.execute(count_open.where(*waits)).scalar_one())
            if connection.execute(count_open).scalar_one() == 0:
                _require_succeeded(database)
                return held
        time.sleep(0.02)  # other processes execute them
    raise NotReady(f"the runs are not done after {PATIENCE_S} s")


def _require_succeeded(database: Database) -> None:
    with database.read() as connection:
        failed = connection.execute(select(runs.c.id, runs.c.error_code).where(runs.c.status != "succeeded")).first()
    if failed is not None:
        raise NotReady(f"{failed.id} ended with {failed.error_code}")


if __name__ == "__main__":
    run(measure, __doc__)
