"""How many streams of 20 tokens a second one worker process holds, p99 within 100 ms: (a) direct, (c) Callboard.

PYTHONPATH=. .venv/bin/python -m tests.bench.streams_held [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import rigs
from tests.bench.command import Effort, run, say
from tests.bench.processes import model_server
from tests.bench.report import Bar, Figure, Report
from tests.bench.rigs import Rig

RATE, SECONDS, P99_MS = 20, 8, 100.0
STEPS = (100, 150, 200, 250, 300, 400, 500)
QUICK_STEPS = (5, 10)
STARTS_PER_S = 75
"""Runs that begin each second: the same at every step, since streams are counted here, not starts."""
SHORTEST_RAMP_S = 2.0
SLOTS = 600
"""More than the steps ask for: the process is to be the limit, not its tickets."""


def measure(effort: Effort) -> Report:
    """Return the highest step each way holds, taking turns."""
    steps = QUICK_STEPS if effort.is_quick else STEPS
    seconds = effort.pick(SECONDS, 2)
    held: dict[str, list[float]] = {"direct": [], "callboard": []}
    seen: list[dict[str, Any]] = []
    with contextlib.ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = open_things.enter_context(model_server(folder))
        direct = open_things.enter_context(rigs.direct(folder, url))
        ours = open_things.enter_context(rigs.callboard(folder, url, slots=SLOTS))
        ours.load(streams=5, tokens=20, rate=1000, ramp_s=0.3)
        for number in range(effort.rounds):
            for rig in (direct, ours):
                say(f"round {number + 1} of {effort.rounds}: {rig.label}")
                held[rig.label].append(_climb(rig, steps, seconds, seen))
    note = f"p99 ≤ {P99_MS:g} ms; steps {', '.join(map(str, steps))}"
    figures = [
        Figure(
            name="streams one worker process holds",
            unit="",
            rounds=held["callboard"],
            references=held["direct"],
            bar=Bar(compares="ratio", limit=2.0, at_least=True),
            note=note,
        ),
        Figure(
            name="the same, by itself",
            unit="",
            rounds=held["callboard"],
            bar=Bar(compares="figure", limit=300, at_least=True, is_stretch=True),
        ),
    ]
    return Report(
        name="streams_held", title=f"Streams at {RATE} tokens a second", figures=figures, details={"loads": seen}
    )


def _climb(rig: Rig, steps: tuple[int, ...], seconds: int, seen: list[dict[str, Any]]) -> float:
    """Return the last step before the first that is missed; 0 when that is the first."""
    best = 0
    for streams in steps:
        ramp_s = max(SHORTEST_RAMP_S, streams / STARTS_PER_S)
        tokens = round(RATE * (seconds + ramp_s - SHORTEST_RAMP_S))  # all of them at once for as long at every step
        summary = rig.load(streams=streams, tokens=tokens, rate=RATE, ramp_s=ramp_s)
        p99 = summary["latency_ms"]["p99"] if summary["latency_ms"] else float("inf")
        is_held = rig.is_held(summary, tokens) and p99 <= P99_MS
        seen.append({"label": rig.label, "held": is_held, **summary})
        say(
            f"  {rig.label:9} {streams:3} streams  p99 {p99:.1f} ms  {summary['whole']}/{summary['streams']} whole  "
            f"{summary['cpu_us_per_token']:.0f} µs a token{'' if is_held else '  missed'}"
        )
        if not is_held:
            break
        best = streams
    return float(best)


if __name__ == "__main__":
    run(measure, __doc__)
