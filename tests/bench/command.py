"""What every measurement's command line shares: how much, how often, and in which form."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.report import Report


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How thoroughly is measured."""

    rounds: int
    is_quick: bool
    """Small and short: shows that everything works; its figures prove nothing."""

    beside: Path | None = None
    """Another checkout of Callboard, for what compares with one."""

    def pick(self, thorough: int, quick: int) -> int:
        """Return one of two sizes."""
        return quick if self.is_quick else thorough


def say(line: str) -> None:
    """Show how far it is, on stderr."""
    print(line, file=sys.stderr, flush=True)


def run(measure: Callable[[Effort], Report], description: str | None) -> None:
    """Read the command line, measure, print a table or a line of JSON."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not at once: what was started is ended first
    began = time.monotonic()
    measurement = measure(Effort(rounds=1 if args.quick else args.rounds, is_quick=args.quick, beside=args.beside))
    report = Report(
        name=measurement.name,
        title=measurement.title,
        figures=measurement.figures,
        details=measurement.details,
        seconds=time.monotonic() - began,
    )
    if args.json:
        print(report.to_json().decode(), flush=True)
        return
    from rich.console import Console

    from tests.bench.report import print_tables

    print_tables([report], Console())
