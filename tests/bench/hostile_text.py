"""The longest time that 1 MiB of hostile text keeps a process's loop from its other runs.

    PYTHONPATH=. .venv/bin/python -m tests.bench.hostile_text [--quick] [--json]

Each function of ``tests/hostile_functions.py`` gets each shape of ``tests/hostile_text.py``. What the loop does itself
is timed in CPU seconds; of what a thread does, the longest pause of a loop beside it is.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.hostile_functions import ON_A_THREAD, ON_THE_LOOP
from tests.hostile_text import SHAPES, cpu_s

MIB = 1024 * 1024
BAR_MS = 50
TICK_S = 0.001
LOOKS = 3
"""Times a function is measured with a shape; the least counts, as other programs only make it longer."""

Function = Callable[[str], object]


def measure(effort: Effort) -> Report:
    """Return the slowest shape of each function."""
    chars = effort.pick(MIB, MIB // 64)
    gc.collect()
    gc.freeze()  # as a worker does when it is ready
    figures = [_slowest(name, function, chars, _on_loop_ms) for name, function in ON_THE_LOOP.items()]
    figures += [_slowest(f"{name} (on a thread)", f, chars, _pause_ms) for name, f in ON_A_THREAD.items()]
    return Report(name="hostile_text", title="1 MiB of hostile text", figures=figures)


def _slowest(name: str, function: Function, chars: int, look: Callable[[Function, str], float]) -> Figure:
    durations = {shape: look(function, text(chars)) for shape, text in SHAPES.items()}
    shape = max(durations, key=lambda name: durations[name])
    rounds = [min(look(function, SHAPES[shape](chars)) for _ in range(LOOKS))]
    say(f"{name}: {rounds[0]:.1f} ms ({shape})")
    return Figure(name=name, unit="ms", rounds=rounds, bar=Bar(compares="figure", limit=BAR_MS), note=shape)


def _on_loop_ms(function: Function, text: str) -> float:
    return cpu_s(function, text) * 1000


def _pause_ms(function: Function, text: str) -> float:
    """Return the longest pause of a loop that has nothing to do, while a thread works on the text."""
    return asyncio.run(_longest_pause_s(function, text)) * 1000


async def _longest_pause_s(function: Function, text: str) -> float:
    work = asyncio.create_task(asyncio.to_thread(cpu_s, function, text))
    longest, at = 0.0, time.perf_counter()
    while not work.done():
        await asyncio.sleep(TICK_S)
        now = time.perf_counter()
        longest, at = max(longest, now - at - TICK_S), now
    await work
    return max(0.0, longest)


if __name__ == "__main__":
    run(measure, __doc__)
