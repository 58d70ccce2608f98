"""How long the slowest bad input of each surface takes until it is refused, or found harmless.

    PYTHONPATH=. .venv/bin/python -m tests.bench.bad_inputs [--rounds 3] [--quick] [--json]

Times are CPU seconds of the thread. ``tests/bad_inputs.py`` has the inputs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bad_inputs import Try, entries, is_accepted
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report

BAR_MS = 100


def measure(effort: Effort) -> Report:
    """Return the slowest input of each surface."""
    with tempfile.TemporaryDirectory() as folder:
        surfaces = entries(Path(folder))
        figures = [_slowest(name, inputs, effort) for name, inputs in surfaces.items()]
    return Report(name="bad_inputs", title="Bad inputs", figures=figures)


def _slowest(surface: str, inputs: Mapping[str, Try], effort: Effort) -> Figure:
    for entry in inputs.values():
        is_accepted(entry)  # what is imported and compiled once is no time of a refusal
    slowest, rounds = "", []
    for _ in range(effort.rounds):
        durations = {name: _ms(entry) for name, entry in inputs.items()}
        slowest = max(durations, key=lambda name: durations[name])
        rounds.append(durations[slowest])
    say(f"{surface}: {rounds[-1]:.1f} ms of {len(inputs)} inputs ({ascii(slowest)[:60]})")
    bar = Bar(compares="figure", limit=BAR_MS)
    return Figure(name=surface, unit="ms", rounds=rounds, bar=bar, note=f"the slowest of {len(inputs)}")


def _ms(entry: Try) -> float:
    began = time.thread_time()
    is_accepted(entry)
    return (time.thread_time() - began) * 1000


if __name__ == "__main__":
    run(measure, __doc__)
