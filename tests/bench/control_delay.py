"""How long a steer takes to its event and a stop to the end, at 200 streaming runs, beside the same at 10.

    PYTHONPATH=. .venv/bin/python -m tests.bench.control_delay [--rounds 3] [--quick] [--json]

Clients are in this process, the runs in a worker, over Redis and SQLite. A delay is from the call to the time that the
worker gave the event. Families are runs whose child's child's child streams: the stop is the first run's, the end the
last one's.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from bus.payloads import ControlPayload, EndPayload, Payload
from config.database.tables import runs
from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, model_server
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    from agents.handle import RunHandle
    from agents.runner import Runner

FEW, MANY, FAMILIES = 10, 200, 20
PAUSE_S = 0.02
"""Between two controls, as from people."""
STREAM = "bench-400-2"
"""An answer that outlasts a round: 400 tokens, 2 a second, so that 200 of them leave processors free."""
ROUTER = "name: Router\nmodel: demo/assistant\nrouter: [{{agent: {}}}]\n"
LIMITS_MS = {"steer": 250, "stop": 1000}


def measure(effort: Effort) -> Report:
    """Return the p99 of each control at many runs, beside that at few."""
    many, families = effort.pick(MANY, 20), effort.pick(FAMILIES, 3)
    delays: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = stack.enter_context(model_server(folder))
        rig = stack.enter_context(rigs.callboard(folder, url, slots=MANY + 50))
        runner = _open(stack, rig)
        for number in range(effort.rounds):
            for name, count, agent_id in (
                ("few", FEW, STREAM),
                ("many", many, STREAM),
                ("families", families, "level-1"),
            ):
                for what, p99 in _round(runner, agent_id, count).items():
                    delays.setdefault(f"{what} {name}", []).append(p99)
            say(f"round {number + 1}: " + ", ".join(f"{name} {values[-1]:.0f} ms" for name, values in delays.items()))
    figures = [
        Figure(
            name=f"{what} p99, at {many} streaming runs",
            unit="ms",
            rounds=delays[f"{what} many"],
            references=delays[f"{what} few"],
            bar=Bar(compares="figure", limit=LIMITS_MS[what]),
            note=f"beside: at {FEW}",
        )
        for what in LIMITS_MS
    ]
    figures.append(
        Figure(
            name="stop p99, through three levels of children",
            unit="ms",
            rounds=delays["stop families"],
            references=delays["stop few"],
            bar=Bar(compares="figure", limit=LIMITS_MS["stop"]),
            note=f"{families} families; beside: {FEW} runs without children",
        )
    )
    return Report(name="control_delay", title="Steers and stops between processes", figures=figures)


def _open(stack: contextlib.ExitStack, rig: rigs.Rig) -> Runner:
    from agents.runner import Runner
    from tests.bench.accept_cost import _adopt

    assert rig.settings is not None
    assert rig.agents is not None
    rigs.define_agent(rig.agents, 400, 2)
    for level, child in (("level-1", "level-2"), ("level-2", "level-3"), ("level-3", STREAM)):
        (rig.agents / f"{level}.yaml").write_text(ROUTER.format(child))
    _adopt(rig.settings)
    runner = Runner.open(rig.settings)
    stack.callback(runner.close)
    return runner


def _round(runner: Runner, agent_id: str, count: int) -> dict[str, float]:
    """Have so many runs stream, steer each and stop each; return the p99 of the delays."""
    handles = [runner.run("Count, please.", agent_id, detached=True) for _ in range(count)]
    streaming = _until_streaming(runner, count)
    delays = {}
    if agent_id == STREAM:
        steered = _timed([partial(runner.steer, handle.run_id, "Slower.") for handle in handles])
        delays["steer"] = _p99(runner, [handle.run_id for handle in handles], steered, ControlPayload)
    stopped = _timed([handle.cancel for handle in handles])
    for handle in handles:
        assert handle.result(60).status == "cancelled"
    ended = [streaming[handle.run_id] for handle in handles]
    delays["stop"] = _p99(runner, ended, stopped, EndPayload)
    return delays


def _until_streaming(runner: Runner, count: int) -> dict[str, str]:
    """Return, when so many runs of the streaming agent work, each by the first run above it."""
    query = select(runs.c.id, runs.c.parent_id, runs.c.status, runs.c.agent_id).where(runs.c.ended_ms.is_(None))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with runner.journal.database.read() as connection:
            rows = connection.execute(query).all()
        above = {row.id: row.parent_id for row in rows}
        at_work = [row.id for row in rows if row.agent_id == STREAM and row.status == "running"]
        if len(at_work) == count:
            time.sleep(2)  # each has said something
            return {_first(run_id, above): run_id for run_id in at_work}
        time.sleep(0.1)  # another process begins them
    raise NotReady(f"{len(at_work)} of {count} runs stream")


def _first(run_id: str, above: dict[str, str | None]) -> str:
    while (parent := above[run_id]) is not None:
        run_id = parent
    return run_id


def _timed(controls: Sequence[Callable[[], object]]) -> list[float]:
    """Send the controls one after another, and return when each was sent, in ms since 1970."""
    sent = []
    for control in controls:
        sent.append(time.time() * 1000)
        control()
        time.sleep(PAUSE_S)
    time.sleep(1.5)  # their events are written by another process
    return sent


def _p99(runner: Runner, run_ids: Sequence[str], sent: Sequence[float], kind: type[Payload]) -> float:
    """Return the p99 of the delays of each run's first event of a kind; without one it is endless."""
    delays = []
    for run_id, began in zip(run_ids, sent, strict=True):
        at = _first_of(runner.handle(run_id), kind, runner)
        delays.append(float("inf") if at is None else datetime.fromisoformat(at).timestamp() * 1000 - began)
    return sorted(delays)[max(0, round(len(delays) * 0.99) - 1)]


def _first_of(handle: RunHandle, kind: type[Payload], runner: Runner) -> str | None:
    from bus.payloads import decode

    lines, _ = runner.journal.readers.page(handle.run_id, handle.thread_id, 0)
    return next(
        (payload.at for payload in map(decode, (line.data for line in lines)) if isinstance(payload, kind)), None
    )


if __name__ == "__main__":
    run(measure, __doc__)
