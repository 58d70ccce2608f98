"""What a group of tests has done so far, shown while it runs: a live line on a terminal, else a line now and then."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

TERMINAL_EVERY_S = 0.5
LOG_EVERY_S = 30.0
SLOWEST = 10
SLOW_S = 1.0
"""A test below this is not worth a line among the slowest."""


@dataclass(kw_only=True)
class GroupProgress:
    """Counts of one group, what runs now, and how long each test took."""

    name: str
    clock: Callable[[], float] = time.monotonic
    total: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    running: dict[str, float] = field(default_factory=dict)
    """Tests that began, with when; in that order."""
    failed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def note(self, line: bytes) -> str | None:
        """Note what ``tests/progress.py`` said; return the name of a test that failed just now."""
        report = json.loads(line)
        self.total = report.get("total", self.total)
        if "began" in report:
            self.running[report["began"]] = self.clock()
        if "ended" not in report:
            return None
        test = report["ended"]
        self.running.pop(test, None)
        self.seconds[test] = report["seconds"]
        self.outcomes[report["outcome"]] += 1
        if report["outcome"] != "failed":
            return None
        self.failed.append(test)
        return str(test)

    def line(self) -> str:
        """Return counts, time and the test that has been running longest."""
        now = self.clock()
        counts = [f"{self.outcomes.total()} of {self.total}"]
        counts += [f"{count} {outcome}" for outcome in ("failed", "skipped") if (count := self.outcomes[outcome])]
        minutes, seconds = divmod(int(now - self._began), 60)
        text = f"{self.name:<9} {', '.join(counts)}, {minutes}:{seconds:02d}"
        oldest = next(iter(self.running), None)
        return text if oldest is None else f"{text}; now {oldest} ({now - self.running[oldest]:.0f} s)"

    def slowest(self) -> list[str]:
        """Return a line for each of the tests that took longest, the longest first."""
        slow = sorted(self.seconds.items(), key=lambda item: -item[1])[:SLOWEST]
        return [f"  {seconds:6.1f} s  {test}" for test, seconds in slow if seconds >= SLOW_S]


def follow(progress: GroupProgress, pipe: int, out: TextIO | None = None) -> None:
    """Show the progress reported on a file descriptor until its other end is closed."""
    out = out or sys.stderr
    live = out.isatty()
    every_s = TERMINAL_EVERY_S if live else LOG_EVERY_S
    show_at = time.monotonic() + every_s
    unfinished = b""
    while True:
        if select.select([pipe], [], [], max(0.0, show_at - time.monotonic()))[0]:
            chunk = os.read(pipe, 65536)
            if not chunk:
                break
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for failed in filter(None, map(progress.note, lines)):
                _show(f"FAILED    {failed}", out, live=live, stays=True)
        if time.monotonic() >= show_at:
            _show(progress.line(), out, live=live, stays=not live)
            show_at = time.monotonic() + every_s
    if live:
        _show("", out, live=True, stays=False)


def _show(text: str, out: TextIO, *, live: bool, stays: bool) -> None:
    """Write a line over the live one; one that stays moves on to the next."""
    if live:
        width = shutil.get_terminal_size().columns - 1
        out.write("\r\x1b[K" + (text if stays else text[:width]))
    else:
        out.write(text)
    out.write("\n" if stays else "")
    out.flush()
