"""Where the children's lines go: all of them to a file, and to the terminal what its reader should see."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
from io import TextIOWrapper
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO, cast

import click

from config.logs import one_line
from config.private_files import open_private, private_folder
from config.redaction import redact

MAX_LOG_BYTES = 10 * 1024 * 1024
KEPT_LOGS = 3
_COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_ALARMING = re.compile(r"\b(?:WARNING|ERROR|CRITICAL)\b|\"level\":\s?\"(?:warning|error|critical)\"")
_QUIET = frozenset({"redis"})
"""Children whose warnings are about the machine, not about Callboard; `doctor` names what matters of them."""


class Output:
    """A sink for the supervisor; safe to call from any thread, and it never fails for want of a reader or of space."""

    def __init__(self, log: Path, *, verbose: bool) -> None:
        private_folder(log.parent)
        self._file = _LogFile(log)
        self._verbose = verbose
        self._colours: dict[str, str] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        """Take one line of one child."""
        line = one_line(redact(line))
        with self._lock:
            self._keep(name, line)
            if self._verbose or (name not in _QUIET and _ALARMING.search(line)):
                colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
                _show(f"{click.style(f'{name:<9}', fg=colour)} {line}", err=True)

    def say(self, line: str) -> None:
        """Show a line of our own on stdout."""
        with self._lock:
            self._keep("up", line)
            _show(line)

    def note(self, sentence: str) -> None:
        """Show what is going on to who waits, on stderr."""
        with self._lock:
            self._keep("up", sentence)
            _show(click.style(sentence, dim=True), err=True)

    def warn(self, sentence: str) -> None:
        """Show a sentence of our own on stderr."""
        with self._lock:
            self._keep("up", f"WARNING {sentence}")
            _show_warning(sentence)

    def stream(self, name: str) -> TextIO:
        """Return a text stream whose lines come here, for a logging handler of this process."""
        return cast(TextIO, _Lines(self, name))

    def close(self) -> None:
        """Nothing more is written, and nothing that could not be written is in the way of the process's end."""
        with contextlib.suppress(OSError, ValueError):  # a full disk refuses the rest here, too
            self._file.close()
        _let_go(sys.stdout)
        _let_go(sys.stderr)

    def _keep(self, name: str, line: str) -> None:
        """The line is in the log file, or the terminal was told that it cannot be: once, until it can be again."""
        was_well = self._file.wrong is None
        self._file.write(f"{name:<9} {line}")
        if was_well and self._file.wrong is not None:
            why = getattr(self._file.wrong, "strerror", None) or self._file.wrong
            _show_warning(f"{self._file.baseFilename} cannot be written ({why}); lines are missing there until it can.")


class _Lines(io.TextIOBase):
    """Hands on each whole line that is written to it."""

    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._output(self._name, line)
        return len(text)


class _LogFile(RotatingFileHandler):
    """A log file that may fail and goes on where it can; a handler's own way is a traceback a line on stderr."""

    wrong: BaseException | None = None
    """Why the last line could not be written."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=open_private)

    def write(self, line: str) -> None:
        """The line is in the file, or ``wrong`` says why it is not."""
        self.wrong = None
        self.emit(makeLogRecord({"msg": line}))

    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - logging's name
        """Remember what went wrong; a file that was closed in the course of it is opened again for the next line."""
        self.wrong = sys.exception()
        if self.stream is not None and self.stream.closed:
            self.stream = None


def _show_warning(sentence: str) -> None:
    _show(f"{click.style('warning:', fg='yellow')} {sentence}", err=True)


def _show(line: str, *, err: bool = False) -> None:
    """The line is on the terminal, if there is one.

    A terminal that went away, a pipe nobody reads or a file on a full disk is no reason to stop: the log file has the
    line. The next line tries again, since a disk gets room again.
    """
    with contextlib.suppress(OSError, ValueError):
        click.echo(line, err=err)


def _let_go(stream: TextIO | None) -> None:
    """What the stream holds is written or given up; at the exit Python would try again, and end with status 120."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
