"""The whole terminal: drawn anew for each change, left as it was at the end; and lists that follow the board."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from agents.runner import Runner
from cli.output.json import print_json
from cli.output.quoted import columns
from cli.output.table import Form, Table
from web.feeds.board import GATHER_S, POLL_S

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The other screen without a cursor; the terminal as it was before."""
ARROWS = {"\x1b[A": "k", "\x1b[B": "j", "\x1bOA": "k", "\x1bOB": "j", "\x1b[5~": "b", "\x1b[6~": " ", "\r": "\n"}
TERMINATED = 143


def is_screen() -> bool:
    """Return whether there is a terminal that can be drawn on and has keys."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """To be used in a ``with``; ``Ctrl-C`` raises ``KeyboardInterrupt`` in it as anywhere."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)
        self._woken, self._wake = os.pipe()
        for fd in (self._woken, self._wake):
            os.set_blocking(fd, False)

    def __enter__(self) -> Screen:
        self._handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        for number in self._handlers:
            signal.signal(number, _end)
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: self.wake())
        self._before_wakeup = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)  # also for other threads'
        self._take()
        return self

    def __exit__(self, *_error: object) -> None:
        self._give_back()
        signal.set_wakeup_fd(self._before_wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wake)

    @contextmanager
    def left(self) -> Iterator[None]:
        """Give the terminal to what the body runs, such as an editor."""
        self._give_back()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        tty.setcbreak(self._fd, termios.TCSADRAIN)
        modes = termios.tcgetattr(self._fd)
        modes[6][termios.VSUSP] = b"\0"  # Ctrl-Z would leave the shell on the other screen
        termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)
        self._write(ENTER)

    def _give_back(self) -> None:
        self._write(LEAVE)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return columns() or 80, max(4, os.get_terminal_size(sys.stdout.fileno()).lines)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, as many as there is room for, each of which fits the width."""
        _, height = self.size
        self._write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines[:height]) + "\x1b[J")

    def wake(self) -> None:
        """Let ``key`` return; from any thread."""
        with suppress(OSError):  # it is woken already, or over
            os.write(self._wake, b"!")

    def key(self, timeout_s: float | None = None) -> str | None:
        """Return the next key, arrows as ``j`` and ``k``; None where time is over, or something woke the screen.

        Raises:
            EOFError: the terminal is gone.
        """
        ready, _, _ = select.select([self._fd, self._woken], [], [], timeout_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._fd not in ready:
            return None
        text = os.read(self._fd, 64).decode(errors="replace")
        if text in ("", "\x04"):
            raise EOFError
        return ARROWS.get(text, text[0])

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)


# --- lists


Rows = list[dict[str, Any]]
Read = Callable[[], Rows]
KEYS = "q or Ctrl-C ends this list; the runs continue."


@contextmanager
def hints(runner: Runner, nudge: Callable[[], None]) -> Iterator[None]:
    """Call ``nudge`` while the body runs, from another thread, when a run of the tenant may have changed."""
    live, loop = runner.journal.live, runner.journal.loop
    channel = live.keys.board(runner.principal.tenant)

    def take(_run_id: str) -> None:
        nudge()

    loop.run(live.hot_log.listen(channel, take))
    try:
        yield
    finally:
        loop.call_soon(lambda: live.hot_log.unlisten(channel, take))


def show_live(runner: Runner, table: Table, read: Read, form: Form, heading: Callable[[Rows], str]) -> None:
    """Show the rows and each of their changes, until the user ends it; what began before is shown at once."""
    if is_screen() and form in ("table", "wide"):
        with suppress(EOFError), Screen() as screen, hints(runner, screen.wake):
            _draw(screen, table, read, form, heading)
        return
    changed = threading.Event()
    with hints(runner, changed.set):
        before: Mapping[str, Any] = {}
        while True:
            rows = read()
            for row in reversed(rows):  # the oldest first, as they happened
                if before.get(row[table.name]) != row:
                    _print(table, row, form)
            before = {row[table.name]: row for row in rows}
            changed.wait(POLL_S)
            threading.Event().wait(GATHER_S)  # changes come in bursts
            changed.clear()


def _draw(screen: Screen, table: Table, read: Read, form: Form, heading: Callable[[Rows], str]) -> None:
    key = None
    while key not in ("q", "\x1b"):
        rows = read()
        width, height = screen.size
        lines = table.lines(rows, width, form)[: height - 3] if rows else ["", "no run."]
        blanks = [""] * max(0, height - 3 - len(lines))
        screen.draw([click.style(heading(rows), bold=True), *lines, *blanks, "", click.style(KEYS, dim=True)])
        key = screen.key(POLL_S)


def _print(table: Table, row: dict[str, Any], form: Form) -> None:
    if form == "json":
        print_json(row, lines=True)
    else:
        click.echo(row[table.name] if form == "name" else "\n".join(table.plain([row], form)))
        sys.stdout.flush()
