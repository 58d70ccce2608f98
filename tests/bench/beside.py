"""This checkout beside another one: both are up in one run and take turns, so that the machine's load hits both alike.

    ./callboard bench --beside PATH [--rounds 3]
    PYTHONPATH=. .venv/bin/python -m tests.bench.beside --beside PATH [--rounds 3] [--quick] [--json]

Both are used through `./callboard` alone, so the other one may be any earlier release. "Measured" is this checkout.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from config.folders import ROOT
from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import (
    Process,
    clean_environment,
    model_server,
    seconds_until_page_and_word,
    usage_of,
    wait_for_answer,
)
from tests.bench.report import Bar, Figure, Report
from tests.bench.rigs import Rig
from tests.ports import free_port

RATE = 20
FEW, MANY = 50, 150
MOST = 1.03
"""Three percent worse than the other checkout is the same."""
IMPORT_WEB = "import time; began = time.process_time(); import web.app; print(time.process_time() - began)"
T = TypeVar("T")
Seen = dict[str, list[dict[str, Any]]]
"""What each round found, by the checkout's label."""


def measure(effort: Effort) -> Report:
    """Return this checkout's costs, delays and starts beside those of ``effort.beside``."""
    assert effort.beside is not None, "name the other checkout with --beside"
    checkouts = {"this": ROOT, "other": effort.beside.resolve()}
    tokens, few, many = effort.pick(120, 30), effort.pick(FEW, 5), effort.pick(MANY, 12)
    for place in checkouts.values():  # the first command of a checkout makes its environment
        _spent(place, "--help")
    loads: dict[int, Seen] = {few: {}, many: {}}
    starts: Seen = {}
    with contextlib.ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = open_things.enter_context(model_server(folder))
        ways = [open_things.enter_context(_up(label, checkout, folder, url)) for label, checkout in checkouts.items()]
        for number in range(effort.rounds):
            say(f"round {number + 1} of {effort.rounds}, load {os.getloadavg()[0]:.1f}")
            for streams in (few, many):
                for rig in _in_turn(ways, number):
                    summary = rig.load(streams=streams, tokens=tokens, rate=RATE)
                    summary["held"] = rig.is_held(summary, tokens)
                    loads[streams].setdefault(rig.label, []).append(summary)
                    say(f"  {rig.label:5} {streams:3} runs  {_line(summary)}")
    for number in range(effort.rounds):
        say(f"starts {number + 1} of {effort.rounds}, load {os.getloadavg()[0]:.1f}")
        for label in _in_turn(list(checkouts), number):
            starts.setdefault(label, []).append(_starts(checkouts[label]))
            say(f"  {label:5} " + ", ".join(f"{name} {value:.3f}" for name, value in starts[label][-1].items()))
    figures = [*_load_figures(loads), *_start_figures(starts), *_honesty(loads)]
    title = f"This checkout beside another one: {effort.rounds} rounds in turns"
    return Report(name="beside", title=title, figures=figures, details={"loads": loads, "starts": starts})


def _in_turn(both: Sequence[T], number: int) -> Sequence[T]:
    """Return both, each first in every other round."""
    return both if number % 2 == 0 else list(reversed(both))


@contextlib.contextmanager
def _up(label: str, checkout: Path, folder: Path, model_url: str) -> Iterator[Rig]:
    """Yield a checkout's `./callboard up` with one worker process, warmed."""
    own, port = folder / label, free_port()
    agents = own / "agents"
    agents.mkdir(parents=True)
    (agents / "address").write_text(model_url)
    rigs.define_agent(agents, 20, 1000)
    argv = [str(checkout / "callboard"), "up", "--port", str(port), "--state-dir", str(own / "state"), "--workers", "1"]
    process = Process(f"up of {checkout}", argv, own / "up.log", env=_environment(CALLBOARD_AGENTS_DIR=str(agents)))
    try:
        wait_for_answer(port, "/health", process)
        rig = Rig(
            label=label,
            protocol="callboard",
            port=port,
            pids={"up": process.pid},
            path="/v1/runs",
            model_url=model_url,
            agents=agents,
        )
        for _ in range(2):
            rig.load(streams=3, tokens=20, rate=1000, ramp_s=0.3)  # what is made once is made now
        yield rig
    finally:
        process.interrupt()
        process.stop(patience_s=15)


def _environment(**more: str) -> dict[str, str]:
    """Return what a checkout's own `./callboard` needs: none of this one's modules are on its path."""
    return {**more, "PYTHONPATH": "", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


# --- starting


def _starts(checkout: Path) -> dict[str, float]:
    """Return the seconds of a checkout's starts: elapsed, and of CPU where the name says so."""
    durations: dict[str, float] = {}
    durations["./callboard --help"], durations["./callboard --help, CPU"] = _spent(checkout, "--help")
    with tempfile.TemporaryDirectory(prefix="cbbench") as state:
        line = ("run", "assistant", "What is 17 * 23?", "--state-dir", state)
        durations["./callboard run assistant"], durations["./callboard run assistant, CPU"] = _spent(checkout, *line)
    durations["import web.app, CPU"] = _import_s(checkout)
    with tempfile.TemporaryDirectory(prefix="cbbench") as name:
        port = free_port()
        argv = [str(checkout / "callboard"), "up", "--port", str(port), "--state-dir", f"{name}/state"]
        process = Process("up", argv, Path(name) / "up.log", env=_environment())
        try:
            page, word = seconds_until_page_and_word(process, port, 60.0)
            durations["up, until its page answers"], durations["up, until the first word of an answer"] = page, word
            durations["up, until the first word of an answer, CPU"] = sum(usage_of({"up": process.pid}).cpu_s.values())
        finally:
            process.interrupt()
            process.stop(patience_s=15)
    return durations


def _spent(checkout: Path, *arguments: str) -> tuple[float, float]:
    """Return the elapsed seconds of a command, and the CPU seconds of it and its children."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(checkout / "callboard"), *arguments],
        cwd=checkout,
        env=clean_environment(_environment()),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    output = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(
            f"{process.args!r} ended with {process.returncode}: {output[-2000:].decode(errors='replace')}"
        )
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def _import_s(checkout: Path) -> float:
    environment = clean_environment(_environment()) | {"PYTHONPATH": str(checkout)}
    python = str(checkout / ".venv" / "bin" / "python")
    done = subprocess.run(
        [python, "-P", "-c", IMPORT_WEB], cwd=checkout, env=environment, capture_output=True, check=True
    )
    return float(done.stdout)


# --- figures


def _load_figures(loads: Mapping[int, Seen]) -> list[Figure]:
    figures = []
    for streams, seen in loads.items():
        at = f"at {streams} runs of {RATE} tokens a second"
        figures += [
            _figure(f"CPU of all processes a token, {at}", "µs", _all(seen, "cpu_us_per_token"), MOST),
            _figure(f"token latency p50, {at}", "ms", _percentile(seen, "latency_ms", "p50")),
            _figure(f"token latency p99, {at}", "ms", _percentile(seen, "latency_ms", "p99"), MOST),
            _figure(f"time to first token p50, {at}", "ms", _percentile(seen, "first_token_ms", "p50"), MOST),
            _figure(f"time to first token p99, {at}", "ms", _percentile(seen, "first_token_ms", "p99")),
        ]
    return figures


def _start_figures(starts: Seen) -> list[Figure]:
    return [_figure(name, "s", _all(starts, name), MOST) for name in starts["this"][0]]


def _honesty(loads: Mapping[int, Seen]) -> list[Figure]:
    ours = [summary for seen in loads.values() for summary in seen["this"]]
    broken = sum(not our["held"] or our["lost"] + our["repeated"] + our["unordered"] > 0 for our in ours)
    return [
        Figure(
            name="loads with a lost, repeated or wrong event",
            unit="",
            rounds=[float(broken)],
            bar=Bar(compares="figure", limit=0),
        )
    ]


def _figure(name: str, unit: str, values: Mapping[str, list[float]], limit: float | None = None) -> Figure:
    bar = None if limit is None else Bar(compares="ratio", limit=limit)
    return Figure(name=name, unit=unit, rounds=values["this"], references=values["other"], bar=bar)


def _all(seen: Seen, what: str) -> dict[str, list[float]]:
    return {label: [float(summary[what]) for summary in rounds] for label, rounds in seen.items()}


def _percentile(seen: Seen, what: str, which: str) -> dict[str, list[float]]:
    """Return a time of each round; where nothing arrived it is endless."""
    return {
        label: [float(summary[what][which]) if summary[what] else float("inf") for summary in rounds]
        for label, rounds in seen.items()
    }


def _line(summary: Mapping[str, Any]) -> str:
    latency, first = summary["latency_ms"] or {}, summary["first_token_ms"] or {}
    held = "" if summary["held"] else f"  NOT HELD {summary['whole']}/{summary['streams']} {summary['complaints']}"
    return (
        f"latency {latency.get('p50', 0):.2f}/{latency.get('p99', 0):.1f} ms  first token "
        f"{first.get('p50', 0):.1f}/{first.get('p99', 0):.1f} ms  {summary['cpu_us_per_token']:.0f} µs a token{held}"
    )


if __name__ == "__main__":
    run(measure, __doc__)
