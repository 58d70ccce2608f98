"""From the model's stamp to the viewer: (a) direct, (b) naive and (c) Callboard beside each other, in one run.

    PYTHONPATH=. .venv/bin/python -m tests.bench.end_to_end [--rounds 3] [--quick] [--json]

All three are up the whole time and take turns, so that what slows the machine down slows all of them down.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.direct_app import http_parser
from tests.bench.legs import LEGS, note_of
from tests.bench.processes import model_server
from tests.bench.report import Bar, Figure, Report
from tests.bench.rigs import Rig

RATE = 20
FEW, MANY = 50, 150
STEADY_RUNS = 15
HELD_MS = 100.0
"""A way that lets a token wait longer than this at p99 does not hold so many streams."""
Found = dict[tuple[str, int], list[dict[str, Any]]]


def measure(effort: Effort) -> Report:
    """Return what the three ways cost and how quick they are, at 50 and at 150 runs."""
    tokens, few, many = effort.pick(120, 30), effort.pick(FEW, 5), effort.pick(MANY, 12)
    summaries: Found = defaultdict(list)
    first_runs: list[dict[str, float]] = []
    with contextlib.ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = open_things.enter_context(model_server(folder))
        say("starting the three ways")
        direct = open_things.enter_context(rigs.direct(folder, url))
        naive = open_things.enter_context(rigs.naive(folder, url))
        ours = open_things.enter_context(rigs.callboard(folder, url))
        _warm_web(ours)
        for number in range(effort.rounds):
            say(f"round {number + 1} of {effort.rounds}")
            first_runs.append(_first_run(ours, folder))
            for rig, streams in ((direct, few), (naive, few), (ours, few), (direct, many), (ours, many)):
                seen = rig.load(streams=streams, tokens=tokens, rate=RATE)
                seen["held"] = rig.is_held(seen, tokens)
                summaries[rig.label, streams].append(seen)
                say(f"  {rig.label:9} {streams:3} runs  {_line(seen)}")
                say(f"  {'':9} its median run, ms: {seen['median_run']}")
        say("the naive way with more viewers than it has threads")
        crowd = naive.load(streams=many, tokens=tokens, rate=RATE)
        crowd["held"] = naive.is_held(crowd, tokens)
        say(f"  {_line(crowd)}")
    figures = [
        *_figures(summaries, few, many),
        *_leg_figures(summaries, few),
        _crowd_figure(crowd),
        *_first_run_figures(first_runs),
        *_honesty(summaries, few, many),
    ]
    details = {
        "loads": {f"{label} {streams}": seen for (label, streams), seen in summaries.items()},
        "first": first_runs,
        "crowd": crowd,
    }
    title = f"End to end: {few} and {many} runs of {RATE} tokens a second (a: Starlette, uvicorn with {http_parser()})"
    return Report(name="end_to_end", title=title, figures=figures, details=details)


def _warm_web(ours: Rig) -> None:
    """Only the worker is fresh in a first run; the web process and the database have seen runs."""
    for _ in range(2):
        ours.load(streams=3, tokens=20, rate=1000, ramp_s=0.3)


def _first_run(ours: Rig, folder: Path) -> dict[str, float]:
    """Return how long the first token of a fresh worker's first run took, and of runs after it, one at a time."""
    rigs.fresh_worker(ours, folder)
    first = ours.load(streams=1, tokens=20, rate=1000, ramp_s=0.0)
    steady = ours.load(streams=STEADY_RUNS, tokens=20, rate=1000, ramp_s=STEADY_RUNS * 0.1)
    times = {"first": _ms(first, "first_token_ms", "p50"), "steady": _ms(steady, "first_token_ms", "p50")}
    say(f"  first run of a fresh worker {times['first']:.1f} ms, then {times['steady']:.1f} ms")
    return times


def _figures(summaries: Found, few: int, many: int) -> list[Figure]:
    figures = []
    for streams, cpu, p99, first_ms in ((few, 1.1, 1.0, 5.0), (many, 0.85, 0.1, 6.0)):
        ours, direct = summaries["callboard", streams], summaries["direct", streams]
        at = f"at {streams} runs"
        figures += [
            Figure(
                name=f"CPU of web + worker + Redis a token, {at}",
                unit="µs",
                rounds=_all(ours, "cpu_us_per_token"),
                references=_all(direct, "cpu_us_per_token"),
                bar=Bar(compares="ratio", limit=cpu),
                note=_split(ours),
            ),
            Figure(
                name=f"token latency p50, {at}",
                unit="ms",
                rounds=_times(ours, "latency_ms", "p50"),
                references=_times(direct, "latency_ms", "p50"),
                bar=Bar(compares="difference", limit=1.0),
            ),
            Figure(
                name=f"token latency p99, {at}",
                unit="ms",
                rounds=_times(ours, "latency_ms", "p99"),
                references=_times(direct, "latency_ms", "p99"),
                bar=Bar(compares="ratio", limit=p99),
            ),
            Figure(
                name=f"time to first token p50, {at}",
                note="the model takes 50 of it",
                unit="ms",
                rounds=_times(ours, "first_token_ms", "p50"),
                references=_times(direct, "first_token_ms", "p50"),
                bar=Bar(compares="difference", limit=first_ms),
            ),
            Figure(
                name=f"time to first token p99, {at}",
                unit="ms",
                rounds=_times(ours, "first_token_ms", "p99"),
                references=_times(direct, "first_token_ms", "p99"),
            ),
        ]
    naive, direct = summaries["naive", few], summaries["direct", few]
    for name, key, unit in (("latency p50", "p50", "ms"), ("latency p99", "p99", "ms")):
        figures.append(
            Figure(
                name=f"the naive way: token {name}, at {few} runs",
                unit=unit,
                rounds=_times(naive, "latency_ms", key),
                references=_times(direct, "latency_ms", key),
            )
        )
    cpu_of_naive = Figure(
        name=f"the naive way: CPU a token, at {few} runs",
        unit="µs",
        rounds=_all(naive, "cpu_us_per_token"),
        references=_all(direct, "cpu_us_per_token"),
        note=_split(naive),
    )
    return [*figures, cpu_of_naive]


def _leg_figures(summaries: Found, streams: int) -> list[Figure]:
    """Return the p50 of each leg of the first token; the direct way's beside those that both have."""
    ours, direct = summaries["callboard", streams], summaries["direct", streams]
    return [
        Figure(
            name=f"first token, {name}, at {streams} runs",
            note=note_of(name),
            unit="ms",
            rounds=[_ms(our["legs_ms"], name, "p50") for our in ours],
            references=[_ms(summary["legs_ms"], name, "p50") for summary in direct if name in summary["legs_ms"]],
        )
        for _, _, name in LEGS
        if all(name in summary["legs_ms"] for summary in ours)
    ]


def _crowd_figure(seen: Mapping[str, Any]) -> Figure:
    p99 = _ms(seen, "latency_ms", "p99")
    verdict = "held" if seen["held"] and p99 <= HELD_MS else "not held"
    return Figure(
        name=f"the naive way: token latency p99, at {seen['streams']} runs",
        unit="ms",
        rounds=[p99],
        note=f"{seen['whole']} arrive whole: {verdict}",
    )


def _first_run_figures(first_runs: Sequence[Mapping[str, float]]) -> list[Figure]:
    return [
        Figure(
            name="first run of a fresh worker: first token, beside later runs",
            unit="ms",
            rounds=[times["first"] for times in first_runs],
            references=[times["steady"] for times in first_runs],
            bar=Bar(compares="ratio", limit=2.0),
        )
    ]


def _honesty(summaries: Found, few: int, many: int) -> list[Figure]:
    """Every number of every run exactly once, and each text as the model sent it."""
    ours = [*summaries["callboard", few], *summaries["callboard", many]]
    error = [sum(seen[what] for what in ("lost", "repeated", "unordered")) for seen in ours]
    broken = [seen["streams"] - seen["whole"] + (not seen["held"]) for seen in ours]
    none = Bar(compares="figure", limit=0)
    return [
        Figure(name="lost, repeated or misplaced events", unit="", rounds=[float(sum(error))], bar=none),
        Figure(name="runs whose text is not what the model sent", unit="", rounds=[float(sum(broken))], bar=none),
    ]


def _times(seen: Sequence[Mapping[str, Any]], what: str, which: str) -> list[float]:
    return [_ms(summary, what, which) for summary in seen]


def _ms(seen: Mapping[str, Any], what: str, which: str) -> float:
    """Return a time; where nothing arrived it is endless."""
    return float(seen[what][which]) if seen[what] else float("inf")


def _all(seen: Sequence[Mapping[str, Any]], what: str) -> list[float]:
    return [float(summary[what]) for summary in seen]


def _split(seen: Sequence[Mapping[str, Any]]) -> str:
    """Return each process's part of the CPU time, in microseconds a token."""
    names = seen[0]["cpu_s"]
    parts = {
        name: statistics.median(summary["cpu_s"][name] / max(summary["tokens"], 1) * 1e6 for summary in seen)
        for name in names
    }
    return " + ".join(f"{name} {part:.0f}" for name, part in parts.items())


def _line(seen: Mapping[str, Any]) -> str:
    held = "" if seen["held"] else f"  NOT HELD {seen['whole']}/{seen['streams']} {seen['complaints']}"
    return (
        f"latency {_ms(seen, 'latency_ms', 'p50'):.2f}/{_ms(seen, 'latency_ms', 'p99'):.1f} ms  "
        f"first token {_ms(seen, 'first_token_ms', 'p50'):.1f}/{_ms(seen, 'first_token_ms', 'p99'):.1f} ms  "
        f"{seen['cpu_us_per_token']:.0f} µs a token ({_split([seen])}){held}"
    )


if __name__ == "__main__":
    run(measure, __doc__)
