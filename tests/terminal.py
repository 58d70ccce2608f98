"""A command on a pseudo-terminal of a chosen size, for tests that press keys or measure lines."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from config.folders import ROOT

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class PseudoTerminal:
    """A process whose terminal this is; ``screen`` has what it printed, escape sequences included."""

    def __init__(self, *words: str, environment: Mapping[str, str], columns: int = 80, lines: int = 24) -> None:
        self.screen = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, "-P", "-m", "cli", *words], dict(environment))
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_for(self, text: str, timeout_s: float = 30) -> str:
        """Read until the text was printed after what was waited for before; returns what was printed until then."""
        until = time.monotonic() + timeout_s
        while text not in ESCAPES.sub("", self.screen):
            if time.monotonic() > until or not self._read(until - time.monotonic()):
                raise AssertionError(f"no {text!r} in:\n{ESCAPES.sub('', self.screen)}")
        before, _, self.screen = ESCAPES.sub("", self.screen).partition(text)
        return before

    def close(self) -> None:
        """End the process, if it is still there."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def end(self, timeout_s: float = 30) -> int:
        """Read to the end and return the exit status."""
        until = time.monotonic() + timeout_s
        while self._read(until - time.monotonic()):
            pass
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    @property
    def modes(self) -> list[object]:
        """The terminal's settings."""
        return termios.tcgetattr(self._fd)

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0, timeout_s))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the process has ended
            return False
        self.screen += data.decode(errors="replace")
        return bool(data)


def environment_of(state: Path, agents: Path, **more: str) -> dict[str, str]:
    """Return an environment without the developer's configuration, for commands of one state folder."""
    from tests.fleet import bare_environment

    return bare_environment() | {
        "CALLBOARD_STATE_DIR": str(state),
        "CALLBOARD_AGENTS_DIR": str(agents),
        "TERM": "xterm",
        "PYTHONPATH": str(ROOT),
        **more,
    }
