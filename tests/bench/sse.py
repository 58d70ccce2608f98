"""What a viewer of the web process costs, beside Starlette: ``sse_cost.py``'s figures, held against their bars.

PYTHONPATH=. .venv/bin/python -m tests.bench.sse [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path

from tests.bench import sse_cost
from tests.bench.command import Effort, run
from tests.bench.report import Bar, Figure, Report
from tests.ports import free_port


def measure(effort: Effort) -> Report:
    """Return CPU an event and viewer, memory a viewer, and the threads of a process with many idle viewers."""
    options = argparse.Namespace(
        viewers=effort.pick(1000, 50),
        rate=20.0,
        seconds=float(effort.pick(8, 1)),
        rounds=effort.rounds,
        idle=effort.pick(5000, 100),
        tls=False,
        port=free_port(),
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder:
        costs = sse_cost.run_rounds(options, Path(folder))
    ours, theirs, idle = costs["callboard"], costs["starlette"], costs["idle"]
    figures = [
        Figure(
            name=f"CPU an event and viewer, {options.viewers} viewers at {options.rate:g}/s",
            unit="µs",
            rounds=[cost.us_per_event for cost in ours],
            references=[cost.us_per_event for cost in theirs],
            bar=Bar(compares="ratio", limit=1.0),
            note="beside Starlette",
        ),
        Figure(
            name="memory a viewer",
            unit="KiB",
            rounds=[max(0.0, cost.kib_per_viewer) for cost in ours],
            bar=Bar(compares="figure", limit=16),
        ),
        Figure(
            name="events that never came",
            unit="",
            rounds=[float(sum(cost.expected - cost.received for cost in ours))],
            bar=Bar(compares="figure", limit=0),
        ),
        Figure(
            name=f"threads of a process with {options.idle} idle viewers",
            unit="",
            rounds=[float(cost.threads) for cost in idle],
            bar=Bar(compares="figure", limit=32),
        ),
        Figure(name="memory an idle viewer", unit="KiB", rounds=[max(0.0, cost.kib_per_viewer) for cost in idle]),
    ]
    return Report(name="sse", title="Viewers of one web process", figures=figures)


if __name__ == "__main__":
    run(measure, __doc__)
