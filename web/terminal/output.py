"""Where the children's lines go: all of them to a file, and to the terminal what its reader should see."""

from __future__ import annotations

import io
import re
import sys
import threading
from logging import LogRecord, makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO, cast

import click

from config.logs import one_line
from config.redaction import redact

MAX_LOG_BYTES = 10 * 1024 * 1024
KEPT_LOGS = 3
_COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_ALARMING = re.compile(r"\b(?:WARNING|ERROR|CRITICAL)\b|\"level\":\s?\"(?:warning|error|critical)\"")
_QUIET = frozenset({"redis"})
"""Children whose warnings are about the machine, not about Callboard; `doctor` names what matters of them."""


class Output:
    """A sink for the supervisor; safe to call from any thread."""

    def __init__(self, log: Path, *, verbose: bool) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._file = RotatingFileHandler(log, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8")
        self._verbose = verbose
        self._colours: dict[str, str] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        """Take one line of one child."""
        line = one_line(redact(line))
        with self._lock:
            self._file.emit(_record(f"{name:<9} {line}"))
            if self._verbose or (name not in _QUIET and _ALARMING.search(line)):
                colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
                click.echo(f"{click.style(f'{name:<9}', fg=colour)} {line}", err=True)

    def say(self, line: str) -> None:
        """Show a line of our own on stdout."""
        with self._lock:
            self._file.emit(_record(f"{'up':<9} {line}"))
            click.echo(line)
            sys.stdout.flush()

    def note(self, sentence: str) -> None:
        """Show what is going on to who waits, on stderr."""
        with self._lock:
            self._file.emit(_record(f"{'up':<9} {sentence}"))
            click.secho(sentence, err=True, dim=True)

    def warn(self, sentence: str) -> None:
        """Show a sentence of our own on stderr."""
        with self._lock:
            self._file.emit(_record(f"{'up':<9} WARNING {sentence}"))
            click.echo(f"{click.style('warning:', fg='yellow')} {sentence}", err=True)

    def stream(self, name: str) -> TextIO:
        """Return a text stream whose lines come here, for a logging handler of this process."""
        return cast(TextIO, _Lines(self, name))

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()


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


def _record(text: str) -> LogRecord:
    return makeLogRecord({"msg": text})
