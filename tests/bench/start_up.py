"""How soon things are there, and how big: the web process, ``--help``, a run at the terminal, and ``up`` until its page
answers and until an agent says its first word; a worker, until it owns the first run that waits for it.

PYTHONPATH=. .venv/bin/python -m tests.bench.start_up [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import orjson

from agents.handle import RunHandle
from agents.runner import Runner
from config.folders import FOLDERS, ROOT
from config.identity.principal import LOCAL
from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import (
    Process,
    clean_environment,
    model_server,
    resident_mib,
    seconds_until_page_and_word,
    tree,
)
from tests.bench.report import Bar, Figure, Report
from tests.ports import free_port

_IMPORT_WEB = f"""
import sys, time
there = set(sys.modules)
wall, cpu = time.perf_counter(), time.process_time()
import web.app
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
new = [name for name in sys.modules if name not in there]
libraries = [name for name in new if name.partition(".")[0] not in {FOLDERS!r}]
import json
print(json.dumps({{"wall": wall, "cpu": cpu, "libraries": libraries}}))
"""
_IMPORT_LIBRARIES = """
import sys, time, importlib, json
names = json.load(sys.stdin)
wall, cpu = time.perf_counter(), time.process_time()
for name in names:
    if name not in sys.modules:
        try:
            importlib.import_module(name)
        except ImportError:  # a module that only exists within another
            pass
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
"""


def measure(effort: Effort) -> Report:
    """Return times and sizes."""
    times = effort.pick(7, 3)
    figures = [*_imports(times), *_web_process(effort), _help(times), _run(effort), *_up(effort)]
    return Report(name="start_up", title="Starting, and what it weighs", figures=figures)


def _imports(times: int) -> list[Figure]:
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    libraries: list[str] = []
    for _ in range(times + 1):
        measurement = orjson.loads(_python(_IMPORT_WEB))
        libraries = measurement.pop("libraries")
        ours.append(measurement)
        theirs.append(orjson.loads(_python(_IMPORT_LIBRARIES, orjson.dumps(libraries))))
    heavy = [name for name in libraries if name.partition(".")[0] in ("litellm", "openai")]
    say(f"import web.app: {statistics.median(our['wall'] for our in ours[1:]):.2f} s, {len(libraries)} library modules")
    return [
        Figure(
            name="import web.app, beside its libraries alone",
            unit="s",
            rounds=[sample["cpu"] for sample in ours[1:]],
            references=[their["cpu"] for their in theirs[1:]],
            bar=Bar(compares="ratio", limit=1.2),
            note="CPU",
        ),
        Figure(
            name="litellm's modules among them",
            unit="",
            rounds=[float(len(heavy))],
            bar=Bar(compares="figure", limit=0),
        ),
    ]


def _web_process(effort: Effort) -> list[Figure]:
    """Return the size of gunicorn's worker once it has served runs, and whether it works without a model's library."""
    with contextlib.ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = open_things.enter_context(model_server(folder))
        ours = open_things.enter_context(rigs.callboard(folder, url))
        for _ in range(effort.pick(3, 1)):
            ours.load(streams=30, tokens=20, rate=100, ramp_s=0.5)
        sizes = {pid: resident_mib(pid) for pid in tree(ours.pids["web"])}
        master = sizes.pop(ours.pids["web"])
        worker = max(sizes.values(), default=master)
    say(f"web process {worker:.0f} MiB, its master {master:.0f} MiB")
    return [
        Figure(
            name="web process, after some runs",
            unit="MiB",
            rounds=[worker],
            bar=Bar(compares="figure", limit=110),
            note=f"resident; gunicorn's master {master:.0f} more",
        )
    ]


def _help(times: int) -> Figure:
    taken = []
    for _ in range(times + 1):
        began = time.perf_counter()
        subprocess.run([_callboard(), "--help"], check=True, capture_output=True, cwd=ROOT, env=clean_environment())
        taken.append(time.perf_counter() - began)
    return Figure(name="./callboard --help", unit="s", rounds=taken[1:], bar=Bar(compares="figure", limit=0.3))


def _run(effort: Effort) -> Figure:
    """Return how long a first sum takes at the terminal, its state folder and database made on the way."""
    taken = []
    for _ in range(effort.rounds):
        with tempfile.TemporaryDirectory(prefix="cbbench") as name:
            began = time.perf_counter()
            command = [_callboard(), "run", "assistant", "What is 17 * 23?", "--state-dir", name]
            subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=clean_environment())
            taken.append(time.perf_counter() - began)
    return Figure(
        name="./callboard run assistant, on the demo model",
        unit="s",
        rounds=taken,
        bar=Bar(compares="figure", limit=2.0),
    )


def _up(effort: Effort) -> list[Figure]:
    pages, words = [], []
    for number in range(effort.rounds):
        with tempfile.TemporaryDirectory(prefix="cbbench") as name:
            page, word = _seconds_until_page_and_word(Path(name))
        pages.append(page)
        words.append(word)
        say(f"up {number + 1}: the page answers after {page:.2f} s, an agent after {word:.2f} s")
    return [
        Figure(
            name="./callboard up, until its page answers", unit="s", rounds=pages, bar=Bar(compares="figure", limit=3.0)
        ),
        Figure(
            name="./callboard up, until the first word of an answer",
            unit="s",
            rounds=words,
            bar=Bar(compares="figure", limit=6.0),
            note="asked as soon as the page answers; demo model",
        ),
    ]


def _first_claims(effort: Effort) -> list[Figure]:
    """Return how long two runs wait for a worker that starts, where one of them needs LiteLLM."""
    waits: dict[str, list[float]] = {"bench-20-1000": [], "quick": []}
    for number in range(effort.rounds):
        with tempfile.TemporaryDirectory(prefix="cbbench") as name:
            for agent, waited_s in _seconds_until_claimed(Path(name), tuple(waits)).items():
                waits[agent].append(waited_s)
        say(f"worker {number + 1}: " + ", ".join(f"{agent} after {all_s[-1]:.2f} s" for agent, all_s in waits.items()))
    slow, quick = waits.values()
    return [
        Figure(
            name="a worker, until it owns a run of the demo model",
            unit="s",
            rounds=quick,
            bar=Bar(compares="figure", limit=2.5),
            note="another agent needs LiteLLM",
        ),
        Figure(
            name="a worker, until it owns a run that needs LiteLLM",
            unit="s",
            rounds=slow,
            bar=Bar(compares="figure", limit=6.0),
        ),
    ]


def _seconds_until_claimed(folder: Path, agents: tuple[str, ...]) -> dict[str, float]:
    """Return when a new worker's first run of each agent was claimed; all were queued before it started."""
    with contextlib.ExitStack() as open_things:
        url = open_things.enter_context(model_server(folder))
        with rigs.callboard(folder, url) as rig:
            assert rig.settings is not None
            assert rig.agents is not None
            (rig.agents / "quick.yaml").write_text("name: Q\nmodel: demo/instant\nsystem_prompt: You answer.\n")
            rig.processes.pop("worker").stop()
            with contextlib.closing(Runner.open(rig.settings)) as runner:
                handles = {agent: runner.run("say hello", agent, detached=True) for agent in agents}
                began_ms = time.time() * 1000
                rigs.fresh_worker(rig, folder)
                for handle in handles.values():
                    handle.result(60)
                return {agent: (_started_ms(runner, handle) - began_ms) / 1000 for agent, handle in handles.items()}


def _started_ms(runner: Runner, handle: RunHandle) -> float:
    run = runner.journal.readers.runs.get(LOCAL, handle.run_id)
    return datetime.fromisoformat(run["started_at"]).timestamp() * 1000


def _seconds_until_page_and_word(folder: Path, patience_s: float = 60.0) -> tuple[float, float]:
    port = free_port()
    process = Process(
        "up", [_callboard(), "up", "--port", str(port), "--state-dir", str(folder / "state")], folder / "up.log"
    )
    try:
        return seconds_until_page_and_word(process, port, patience_s)
    finally:
        process.interrupt()
        process.stop(patience_s=15)


def _callboard() -> str:
    return str(ROOT / "callboard")


def _python(source: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        [sys.executable, "-P", "-c", source],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=clean_environment(),
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-2000:])
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    run(measure, __doc__)
