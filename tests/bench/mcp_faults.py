"""What servers of MCP that die or attack cost the process that calls them.

    PYTHONPATH=. .venv/bin/python -m tests.bench.mcp_faults [--quick] [--json]

First a server is killed at random moments, while it starts and while it has calls (`tests/bench/killed_server.py`).
Then each kind of hostile server (`tests/bench/hostile_servers.py`) is called by a process of its own, whose peak of
memory the kernel keeps. The calls of another server of that process have to continue meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from tests.bench.command import Effort, run, say
from tests.bench.forked import in_child
from tests.bench.hostile_servers import CASES, Cost, OddServer, cost_of
from tests.bench.killed_server import Ends, kill_again_and_again
from tests.bench.report import Bar, Figure, Report

KILLS, FEW_KILLS = 100, 20
MEMORY = Bar(compares="figure", limit=64)
FLAT = Bar(compares="figure", limit=8)
"""What the allocator keeps differs by some MiB."""
NONE = Bar(compares="figure", limit=0)
SOME = Bar(compares="figure", limit=1, at_least=True)
KNOWN = ("answered", "failed", "unknown")
MIB = 1024 * 1024
SEED = 12


def measure(effort: Effort) -> Report:
    """Return how the calls of killed servers ended, and what each hostile server cost."""
    kills = effort.pick(KILLS, FEW_KILLS)
    ends = in_child(partial(kill_again_and_again, kills, effort.pick(10, 3), random.Random(SEED)))
    say(f"killed {kills} times: {dict(ends.calls)}")
    costs = {}
    with OddServer() as odd:
        for name, case in CASES.items():
            cost = costs[name] = in_child(partial(cost_of, case, odd.url, effort.is_quick))
            slowest = f"another server's call {cost.others_slowest_ms:.0f} ms"
            say(f"{name}: {cost.grew_bytes / MIB:.1f} MiB, {cost.seconds:.1f} s, {slowest}; {cost.outcome[:150]}")
    figures = [*_of_kills(kills, ends), *_of_attacks(costs)]
    return Report(name="mcp_faults", title="MCP servers that die or attack", figures=figures)


def _of_kills(kills: int, ends: Ends) -> list[Figure]:
    others = sum(number for name, number in ends.calls.items() if name not in (*KNOWN, "hung"))
    measures: list[tuple[str, float, str, Bar | None]] = [
        *((f"calls that were {name}", ends.calls[name], "", None) for name in KNOWN),
        ("calls that hung", ends.calls["hung"], "", NONE),
        ("calls that ended in another way", others, "", NONE),
        ("processes left", ends.processes_left, "", NONE),
        ("file descriptors left", ends.descriptors_left, "", NONE),
        ("growth of memory", ends.grew_bytes / MIB, "MiB", FLAT),
    ]
    return [Figure(name=name, unit=unit, rounds=[x], bar=bar, note=f"{kills} kills") for name, x, unit, bar in measures]


def _of_attacks(costs: Mapping[str, Cost]) -> list[Figure]:
    figures = [
        Figure(name=name, unit="MiB", rounds=[cost.grew_bytes / MIB], bar=MEMORY) for name, cost in costs.items()
    ]
    failed = sum(cost.others_failed for cost in costs.values())
    left = sum(cost.processes_left for cost in costs.values())
    endless = sum(1 for cost in costs.values() if cost.outcome == "no end")
    note = f"{len(costs)} attacks"
    return [
        *figures,
        Figure(name="attacks without an end", unit="", rounds=[endless], bar=NONE, note=note),
        Figure(name="calls of another server that failed meanwhile", unit="", rounds=[failed], bar=NONE, note=note),
        Figure(
            name="fewest calls of another server that were answered during an attack",
            unit="",
            rounds=[min(cost.others_answered for cost in costs.values())],
            bar=SOME,
            note=note,
        ),
        Figure(
            name="the slowest of them",
            unit="ms",
            rounds=[max(cost.others_slowest_ms for cost in costs.values())],
            note=note,
        ),
        Figure(name="processes left", unit="", rounds=[left], bar=NONE, note=note),
    ]


if __name__ == "__main__":
    run(measure, __doc__)
