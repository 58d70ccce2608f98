"""Loads of Callboard alone, one after the other: run it in two checkouts in turns to tell a change from the machine.

PYTHONPATH=. .venv/bin/python -m tests.bench.one_way [150 150 150] [--tokens 120]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import rigs
from tests.bench.processes import model_server

RATE = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", type=int, nargs="*", default=[150, 150, 150], help="runs at once, a load each")
    parser.add_argument("--tokens", type=int, default=120, help="tokens a run, 20 of them a second")
    options = parser.parse_args()
    seen = []
    with contextlib.ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        ours = open_things.enter_context(rigs.callboard(folder, open_things.enter_context(model_server(folder))))
        for _ in range(2):
            ours.load(streams=3, tokens=20, rate=1000, ramp_s=0.3)  # what is made once is made now
        for streams in options.streams:
            seen.append(ours.load(streams=streams, tokens=options.tokens, rate=RATE))
            print(f"{streams:4} runs  {_line(seen[-1])}", flush=True)
    print(f"first token, the median run of the last load, in ms: {seen[-1]['median_run']}")
    print(f"median CPU a token {statistics.median(summary['cpu_us_per_token'] for summary in seen):.0f} µs")


def _line(seen: dict[str, Any]) -> str:
    parts = " + ".join(f"{name} {cpu_s / max(1, seen['tokens']) * 1e6:.0f}" for name, cpu_s in seen["cpu_s"].items())
    latency, first = seen["latency_ms"], seen["first_token_ms"]
    return (
        f"latency {latency['p50']:.2f}/{latency['p99']:.1f} ms  first token {first['p50']:.1f}/{first['p99']:.1f} ms  "
        f"{seen['cpu_us_per_token']:.0f} µs a token ({parts})"
    )


if __name__ == "__main__":
    main()
