"""FOR_EACH over 10,000 items: what an item costs, what the worker weighs, what a kill repeats, and two workers.

    PYTHONPATH=. .venv/bin/python -m tests.bench.workflow_lists [--rounds 3] [--quick] [--json]

Web, worker and Redis are processes as `up` starts them, on SQLite. Each long run takes turns with one of 100 items. The
worker is killed while it works on a list whose items write into a file. Lists that are spread over child runs have
items that wait for 50 ms, as for another system; the same list is worked on by one worker and by two.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import select

from cli.supervisor.serving import worker_command
from config.database.engine import Database, open_database
from config.database.tables import runs, steps
from tests.agents.workflows.flows import END, START, edges, node
from tests.bench import rigs, workflow_tools
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, Process, usage_of
from tests.bench.report import Bar, Figure, Report

ITEMS, FEW, SPREAD = 10_000, 100, 1_600
AT_ONCE = 20
BODIES = {"TRANSFORM": "computed", "a pure FUNCTION": "called"}
"""The workflow of each type of body."""
ITEM_MS, GROWTH_MIB, TWO_WORKERS = 3, 64, 1.7
SLOTS, TOGETHER, BATCH = 4, 2, 25
"""Of a worker that takes batches: 8 items wait at the same time, which leaves processors free for a second worker."""
BATCHES = SPREAD // BATCH
"""All batches are begun at once, so that there is always one for a free slot."""
PATIENCE_S = 300


def measure(effort: Effort) -> Report:
    """Return the cost of an item, the growth of the worker, what a kill repeats, and the gain of a second worker."""
    count, spread = effort.pick(ITEMS, 300), effort.pick(SPREAD, 200)
    course = Course()
    with tempfile.TemporaryDirectory(prefix="cbbench") as name:
        effects = Path(name) / "effects"
        os.environ[workflow_tools.EFFECTS] = str(effects)
        with _opened(Path(name) / "one") as place:
            for number in range(effort.rounds):
                for body in BODIES:
                    _weigh(place, body, count, course)
                _kill(place, count, effects, course)
                say(f"round {number + 1}: {course.line()}")
        with _opened(Path(name) / "two", slots=SLOTS, child_runs=BATCHES) as place:
            for _ in range(effort.rounds):
                _share_out(place, spread, course)
                say(f"spread: {course.rates['one'][-1]:.0f} / {course.rates['two'][-1]:.0f} items a second")
    return Report(name="workflow_lists", title=f"FOR_EACH over {count:,} items", figures=course.figures(count, spread))


@dataclass(slots=True)
class Course:
    """What was measured in each round."""

    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    """Of all processes an item, by the body and the number of items."""
    wall_ms: dict[str, list[float]] = field(default_factory=dict)
    peaks_mib: dict[str, list[float]] = field(default_factory=dict)
    repeated: list[float] = field(default_factory=list)
    """Calls for items that were at their end when the worker was killed."""
    lost: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    """Calls that were made twice, of items that were under way."""
    rates: dict[str, list[float]] = field(default_factory=lambda: {"one": [], "two": []})

    def line(self) -> str:
        """Return the last round as a line for the terminal."""
        parts = [f"{name} {self.wall_ms[name][-1]:.2f} ms {self.peaks_mib[name][-1]:.0f} MiB" for name in self.wall_ms]
        return ", ".join([*parts, f"repeated {self.repeated[-1]:.0f}, again {self.again[-1]:.0f}"])

    def figures(self, count: int, spread: int) -> list[Figure]:
        """Return the table."""
        figures = []
        for body in BODIES:
            long, short = f"{body} {count}", f"{body} {FEW}"
            for what, times in (("CPU of web + worker + Redis", self.cpu_ms), ("time", self.wall_ms)):
                limit = Bar(compares="figure", limit=ITEM_MS)
                note = f"beside: a list of {FEW}"
                name = f"{what} an item, the body is {body}"
                figures.append(
                    Figure(name=name, unit="ms", rounds=times[long], references=times[short], bar=limit, note=note)
                )
            figures.append(
                Figure(
                    name=f"the worker's memory at its peak, the body is {body}",
                    unit="MiB",
                    rounds=self.peaks_mib[long],
                    references=self.peaks_mib[short],
                    bar=Bar(compares="difference", limit=GROWTH_MIB),
                )
            )
        return [*figures, *self._safe(), self._shared(spread)]

    def _safe(self) -> list[Figure]:
        none = Bar(compares="figure", limit=0)
        return [
            Figure(
                name="finished items that were worked on again after a kill", unit="", rounds=self.repeated, bar=none
            ),
            Figure(name="items that no call was made for", unit="", rounds=self.lost, bar=none),
            Figure(
                name="items under way at the kill that were called again",
                unit="",
                rounds=self.again,
                bar=Bar(compares="figure", limit=AT_ONCE),
            ),
        ]

    def _shared(self, spread: int) -> Figure:
        return Figure(
            name=f"two workers on a list of {spread:,} that is spread, items that wait for 50 ms",
            unit="/s",
            rounds=self.rates["two"],
            references=self.rates["one"],
            bar=Bar(compares="ratio", limit=TWO_WORKERS, at_least=True),
            note=f"beside: one worker; each has {SLOTS} batches at once, of {TOGETHER} items at once",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Callboard as `up` runs it, with the workflows of this bench."""

    rig: rigs.Rig
    folder: Path
    database: Database

    def start(self, workflow: str, count: int) -> str:
        """Start a run for so many numbers, and return its id."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rig.port, timeout=60)
        with contextlib.closing(connection):
            body = orjson.dumps({"workflow": workflow, "input": {"numbers": list(range(count))}})
            connection.request("POST", "/v1/runs", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != 202:
            raise NotReady(f"the run was refused: {answer.status} {text.decode()[:300]}")
        return str(orjson.loads(text)["run_id"])

    def until_ended(self, run_id: str, count: int) -> None:
        """Return when a run has succeeded with so many results."""
        query = select(runs.c.status, runs.c.error_code, runs.c.output_json).where(runs.c.id == run_id)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with self.database.read() as connection:
                row = connection.execute(query).one()
            if row.status not in ("queued", "running", "waiting"):
                if row.status != "succeeded" or len(orjson.loads(row.output_json)) != count:
                    raise NotReady(f"{run_id} is {row.status} {row.error_code}")
                return
            time.sleep(0.02)  # another process works on it
        raise NotReady(f"{run_id} is {row.status} after {PATIENCE_S} s")

    def finished(self, run_id: str) -> set[int]:
        """Return the indices of the items whose end is written."""
        query = select(steps.c.node).where(steps.c.run_id == run_id, steps.c.kind == "item")
        with self.database.read() as connection:
            return {int(path.rpartition("/")[2]) for path in connection.execute(query).scalars()}


@contextlib.contextmanager
def _opened(folder: Path, **changes: Any) -> Any:
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        rig = stack.enter_context(rigs.callboard(folder, "none", **changes))
        assert rig.agents is not None
        assert rig.settings is not None
        bodies: Mapping[str, tuple[dict[str, Any], Mapping[str, Any]]] = {
            "computed": (node("body", "TRANSFORM", output={"n": "{{ item + 1 }}"}), {}),
            "called": (_function("add_one"), {}),
            "noted": (_function("note"), {}),
            "spread": (_function("ask_another"), {"spread": BATCH, "at_once": TOGETHER}),
        }
        for name, (body, config) in bodies.items():
            each = node("each", "FOR_EACH", items="{{ input.numbers }}", **config)
            fields = {"nodes": [START, each, body, END]}
            fields["edges"] = edges("start each", "each body foreach-body", "each end")
            (rig.agents / f"{name}.yaml").write_bytes(orjson.dumps({"name": name, **fields}))
        database = stack.enter_context(contextlib.closing(open_database(rig.settings.database)))
        yield Place(rig=rig, folder=folder, database=database)


def _function(tool: str) -> dict[str, Any]:
    return node("body", "FUNCTION", tool=f"{workflow_tools.__name__}:{tool}", arguments={"n": "{{ item }}"})


# --- what is measured


def _weigh(place: Place, body: str, count: int, course: Course) -> None:
    """Measure a run of few items and one of many, both in the worker as it is."""
    place.until_ended(place.start(BODIES[body], FEW), FEW)  # what is made once is made now
    for size in (FEW, count):
        name, pid = f"{body} {size}", place.rig.pids["worker"]
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the kernel keeps the peak from now on
        before, began_s = usage_of(place.rig.pids), time.monotonic()
        place.until_ended(place.start(BODIES[body], size), size)
        taken = time.monotonic() - began_s, sum(usage_of(place.rig.pids).since(before).values())
        for into, seconds in zip((course.wall_ms, course.cpu_ms), taken, strict=True):
            into.setdefault(name, []).append(seconds / size * 1000)
        course.peaks_mib.setdefault(name, []).append(_peak_mib(pid))


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _kill(place: Place, count: int, effects: Path, course: Course) -> None:
    """Kill the worker when half of the items are noted, and compare what is noted afterwards with what was finished."""
    effects.write_text("")
    run_id = place.start("noted", count)
    until = time.monotonic() + PATIENCE_S
    while (size := len(_noted(effects))) < count // 2:
        if time.monotonic() > until:
            raise NotReady(f"{size} of {count} items are noted after {PATIENCE_S} s")
        time.sleep(0.02)  # another process works on them
    os.killpg(place.rig.processes["worker"].pid, signal.SIGKILL)
    time.sleep(0.2)  # the kernel ends its threads
    before, finished = len(_noted(effects)), place.finished(run_id)
    rigs.fresh_worker(place.rig, place.folder)
    place.until_ended(run_id, count)
    numbers = _noted(effects)
    if not 0 < len(finished) < count:
        raise NotReady(f"{len(finished)} of {count} items were finished when the worker was killed")
    course.repeated.append(float(sum(number in finished for number in numbers[before:])))
    course.lost.append(float(count - len(set(numbers))))
    course.again.append(float(sum(times - 1 for times in Counter(numbers).values())))


def _noted(effects: Path) -> Sequence[int]:
    return [int(line) for line in effects.read_text().split()]


def _share_out(place: Place, count: int, course: Course) -> None:
    """Measure a spread list on one worker, and on two."""
    place.until_ended(place.start("spread", FEW), FEW)
    course.rates["one"].append(_rate(place, count))
    assert place.rig.settings is not None
    log = place.folder / f"second-{time.monotonic_ns()}.log"
    second = Process("worker-2", worker_command("worker-2", None), log, env=rigs.environment_of(place.rig.settings))
    try:
        second.wait_for("worker is warm")
        second.wait_for(" ready.")
        place.until_ended(place.start("spread", FEW), FEW)
        course.rates["two"].append(_rate(place, count))
    finally:
        second.stop()


def _rate(place: Place, count: int) -> float:
    began_s = time.monotonic()
    place.until_ended(place.start("spread", count), count)
    return count / (time.monotonic() - began_s)


if __name__ == "__main__":
    run(measure, __doc__)
