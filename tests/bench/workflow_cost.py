"""What a workflow of 25 nodes that compute costs, beside the same chain in LangGraph and in DBOS, each on SQLite.

    PYTHONPATH=. .venv/bin/python -m tests.bench.workflow_cost [--rounds 3] [--quick] [--json]

Every second node adds one, the others pass on what they are given. All three run in a process of their own without a
broker, keep their steps in a file with their defaults, and take turns. LangGraph and DBOS are installed into a venv of
the bench's own, in a temporary folder.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from config.settings import Settings
from tests.agents.workflows.flows import chain, node
from tests.bench import workflow_tools
from tests.bench.command import Effort, run, say
from tests.bench.processes import NotReady, clean_environment
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    from agents.runner import Runner

STEPS, RUNS = 25, 40
PACKAGES = ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2", "dbos==3.4.0")
PEERS = {"langgraph": 1.5, "dbos": 1.0}
"""Each with the limit of our time beside its time."""
PROGRAM = Path(__file__).with_name("workflow_peers.py")
INPUT = {"count": 0, "text": "a text of some length"}
OURS, CALLS = "callboard", "callboard with calls"
TOOL = f"{workflow_tools.__name__}:add_one"
Chain = Callable[[], float]
"""Runs the chain once, and returns how many milliseconds it took."""


def measure(effort: Effort) -> Report:
    """Return the time of a run beside those of the peers, and of a node."""
    count = effort.pick(RUNS, 3)
    medians: dict[str, list[float]] = {name: [] for name in (OURS, CALLS, *PEERS)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        say("installing LangGraph and DBOS")
        interpreter = _installed(folder / "venv")
        chains = dict(stack.enter_context(_ours(folder)))
        for name in PEERS:
            chains[name] = stack.enter_context(_peer(interpreter, name, folder))
        _in_turns(chains, 5)
        for number in range(effort.rounds):
            for name, times in _in_turns(chains, count).items():
                medians[name].append(statistics.median(times))
            say(f"round {number + 1}: " + ", ".join(f"{name} {values[-1]:.1f} ms" for name, values in medians.items()))
    return Report(
        name="workflow_cost",
        title=f"A workflow of {STEPS} nodes that compute",
        figures=[*(_beside(name, medians) for name in PEERS), *_alone(medians)],
        details={"packages": PACKAGES, "runs": count},
    )


def _beside(name: str, medians: dict[str, list[float]]) -> Figure:
    package = next(package for package in PACKAGES if package.startswith(f"{name}=="))
    return Figure(
        name=f"a run of {STEPS} nodes",
        unit="ms",
        rounds=medians[OURS],
        references=medians[name],
        bar=Bar(compares="ratio", limit=PEERS[name]),
        note=f"beside: {package.replace('==', ' ')}",
    )


def _alone(medians: dict[str, list[float]]) -> list[Figure]:
    return [
        Figure(
            name="a node, with its share of the run",
            unit="ms",
            rounds=[median / STEPS for median in medians[OURS]],
            bar=Bar(compares="figure", limit=2),
        ),
        Figure(
            name=f"a run of {STEPS} nodes that each call a function",
            unit="ms",
            rounds=medians[CALLS],
            references=medians["dbos"],
            note="two commits a node; beside: DBOS, which commits once a step",
        ),
    ]


def _in_turns(chains: dict[str, Chain], count: int) -> dict[str, list[float]]:
    """Return the milliseconds of each run; who begins changes."""
    times: dict[str, list[float]] = {name: [] for name in chains}
    names = list(chains)
    for turn in range(count):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(chains[name]())
    return times


# --- the three


@contextlib.contextmanager
def _ours(folder: Path) -> Iterator[dict[str, Chain]]:
    from agents.runner import Runner
    from config.database.migrate import migrate

    flows = folder / "workflows"
    flows.mkdir()
    computed = [node(f"n{number}", "TRANSFORM", output=_output(number)) for number in range(STEPS)]
    called = [node(f"n{number}", "FUNCTION", tool=TOOL, arguments=_arguments(number)) for number in range(STEPS)]
    for name, nodes in {"computed": computed, "called": called}.items():
        (flows / f"{name}.yaml").write_bytes(orjson.dumps({"name": name, **chain(*nodes)}))
    settings = Settings(state_dir=folder / "state", agents_dir=str(flows))
    migrate(settings)
    runner = Runner.open(settings)
    try:
        last = {**INPUT, "count": (STEPS + 1) // 2}
        yield {OURS: lambda: _timed(runner, "computed", last), CALLS: lambda: _timed(runner, "called", STEPS)}
    finally:
        runner.close()


def _arguments(number: int) -> Any:
    return {"n": f"{{{{ nodes.n{number - 1} }}}}" if number else "{{ input.count }}"}


def _output(number: int) -> Any:
    before = f"nodes.n{number - 1}" if number else "input"
    if number % 2:
        return f"{{{{ {before} }}}}"
    return {"count": f"{{{{ {before}.count + 1 }}}}", "text": f"{{{{ {before}.text }}}}"}


def _timed(runner: Runner, workflow: str, output: Any) -> float:
    began = time.perf_counter()
    end = runner.run_workflow(workflow, INPUT).result(30)
    taken = time.perf_counter() - began
    assert end.output == output, end
    return taken * 1000


def _installed(folder: Path) -> Path:
    """Return the interpreter of a venv with the peers.

    Raises:
        NotReady: they cannot be installed.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    argv = [str(interpreter), "-m", "pip", "install", "--quiet", *PACKAGES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(f"the packages beside which this measures cannot be installed:\n{done.stderr[-2000:]}")
    return interpreter


@contextlib.contextmanager
def _peer(interpreter: Path, name: str, folder: Path) -> Iterator[Chain]:
    argv = [str(interpreter), "-P", str(PROGRAM), name, str(folder), str(STEPS)]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment({"PYTHONPATH": ""}), text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def timed() -> float:
        requests.write("1\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise NotReady(f"{name} ended with status {process.wait()}; its output is above")
        return float(orjson.loads(line)[0])

    try:
        yield timed
    finally:
        with contextlib.suppress(OSError):
            requests.close()
        process.wait(10)
        answers.close()


if __name__ == "__main__":
    run(measure, __doc__)
