"""Reads the logger observer's files: the lines of all processes by time, and on request those that follow."""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

POLL_S = 0.25

_TEXT = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]+Z)  (\S++) ++\d++  \S*+ ++(\S+)")
_JSON = re.compile(r'\{"at":"([^"]+)","run_id":"([^"]+)","seq":\d+,"agent_id":"(?:[^"\\]|\\.)*","type":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class LogLine:
    """One record as it stands in a file."""

    at: str
    """The line's time, or that of the line before it where it has none or an earlier one."""
    run_id: str
    type: str
    text: str


def log_lines(
    folder: Path,
    run_id: str | None = None,
    *,
    follow: bool = False,
    pause: Callable[[], None] = lambda: time.sleep(POLL_S),
) -> Iterator[LogLine]:
    """Yield the lines of all processes by time, of one run or of all; with ``follow`` also the later ones.

    Rotated files are read too. Following one run ends with its ``end``; following all of them never does.
    ``pause`` is called whenever there is nothing new.
    """
    tails: dict[Path, _Tail] = {}
    try:
        while True:
            fresh = False
            for path in sorted(folder.glob("runs-*.log")):  # also of processes that began meanwhile
                tails.setdefault(path, _Tail(path))
            for line in heapq.merge(*(tail.new_lines() for tail in tails.values()), key=attrgetter("at")):
                fresh = True
                if run_id is None or line.run_id == run_id:
                    yield line
                    if follow and run_id is not None and line.type == "end":
                        return
            if not follow:
                return
            if not fresh:
                pause()
    finally:
        for tail in tails.values():
            tail.close()


class _Tail:
    """One process's file and those it was set aside to; remembers how far it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[BinaryIO] = []
        self._rest = b""
        self._at = ""

    def new_lines(self) -> Iterator[LogLine]:
        """Yield the whole lines that were not read yet."""
        self._open_newer()
        while self._files:
            for line in self._files[0]:
                if line.endswith(b"\n"):
                    yield self._parsed(self._rest + line)
                    self._rest = b""
                else:
                    self._rest += line
            if len(self._files) == 1:  # the one that is being written to
                return
            self._files.pop(0).close()
            self._rest = b""

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _open_newer(self) -> None:
        """Open the files that are newer than the one read last, the oldest of them first."""
        reading = os.fstat(self._files[-1].fileno()) if self._files else None
        younger: list[BinaryIO] = []
        # From the youngest on, so that a rotation meanwhile shows a file twice rather than never.
        rotated = takewhile(Path.exists, (Path(f"{self._path}.{number}") for number in count(1)))
        for path in (self._path, *rotated):
            with contextlib.suppress(FileNotFoundError):
                file: BinaryIO = path.open("rb")
                state = os.fstat(file.fileno())
                if reading is not None and os.path.samestat(state, reading):
                    file.close()
                    break
                if any(os.path.samestat(state, os.fstat(other.fileno())) for other in younger):
                    file.close()
                else:
                    younger.append(file)
        else:
            # The one we read is gone, so the files set aside may be ones we have read.
            for file in younger[1:] if reading is not None else []:
                file.close()
            younger = younger[:1] if reading is not None else younger
        self._files += reversed(younger)

    def _parsed(self, line: bytes) -> LogLine:
        text = line.decode("utf-8", "replace").rstrip("\n")
        match = _JSON.match(text) or _TEXT.match(text)
        if match is None:
            return LogLine(self._at, "", "", text)
        # Records of several runs are written in batches and may be a little out of order; merging needs order.
        self._at = max(self._at, match.group(1))
        return LogLine(self._at, match.group(2), match.group(3), text)
