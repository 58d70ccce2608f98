"""`./callboard up` as a user types it, for journeys: a real supervisor with real children."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

import psutil

from config.folders import ROOT
from tests.fleet import keep_turn

UP_TIMEOUT_S = 60


class Up:
    """A running `./callboard up`."""

    warms_up: ClassVar[bool] = False
    """Whether its workers import LiteLLM behind their runs, seconds of a core each."""

    def __init__(self, state: Path, *flags: str, command: str = "up", **environment: str) -> None:
        self.state = state
        self.lines: list[str] = []
        self._changed = threading.Condition()
        if not self.warms_up:
            keep_turn(state)
        program = [sys.executable, "-P", "-m", "cli", command, "--state-dir", str(state), *flags]
        self.process = subprocess.Popen(
            program,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Up:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            for child in self.children():
                child.kill()
            self.process.kill()
        self.process.wait()

    @property
    def address(self) -> str:
        """The page's address, as it was printed."""
        match = re.search(r"https?://\S+", self.wait_for("Callboard is up at"))
        assert match
        return match.group()

    def wait_for(self, text: str, times: int = 1, after: int = 0) -> str:
        """Return the first printed line that has the words, once they were printed ``times`` times.

        ``after``: how many lines are not looked at, such as those of an earlier test.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines_with(text, after)) >= times or self._ended(), UP_TIMEOUT_S)
        lines = self._lines_with(text, after)
        assert len(lines) >= times, "\n".join(self.lines) or "it said nothing"
        return lines[0]

    def children(self, kind: str = "") -> list[psutil.Process]:
        """Return all processes it started that live, or those with a word in their command line."""
        try:
            processes = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in processes if kind in _command_line(child)]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(40)

    def get(self, path: str) -> Any:
        """Return what a GET answers."""
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            return json.load(answer)

    def ask(self, agent: str, text: str) -> dict[str, Any]:
        """Start a run and return its end, however long the workers take to come up."""
        return self.events(self.start(agent, text))[-1]

    def start(self, agent: str, text: str) -> str:
        """Start a run and return its id."""
        body = json.dumps({"agent": agent, "input": text}).encode()
        request = urllib.request.Request(
            f"{self.address}/v1/runs", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(json.load(answer)["run_id"])

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """Return all events of a run, read as SSE until the feed ends."""
        with urllib.request.urlopen(f"{self.address}/v1/runs/{run_id}/events", timeout=60) as feed:
            return [json.loads(line[6:]) for line in feed if line.startswith(b"data: ")]

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                with self._changed:
                    self.lines.append(line.rstrip())
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _lines_with(self, text: str, after: int) -> list[str]:
        return [line for line in self.lines[after:] if text in line]

    def _ended(self) -> bool:
        return self.process.poll() is not None and self.process.stdout is not None and self.process.stdout.closed


class WarmingUp(Up):
    """A running `./callboard up` whose workers import LiteLLM behind their runs."""

    warms_up = True


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
