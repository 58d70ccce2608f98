"""The children's output: every line goes to a file, warnings and errors to the terminal too."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
from pathlib import Path
from typing import TextIO, cast

import click

from config.clock import stamp
from config.private_files import private_folder
from config.redaction import redact
from config.text.visible import one_line
from observers.logfile.rotated_file import RotatedFile

MAX_LOG_BYTES = 10 * 1024 * 1024
KEPT_LOGS = 4
"""The file itself, and those that were full."""
_COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_ALARMING = re.compile(r"\b(?:WARNING|ERROR|CRITICAL)\b|\"level\":\s?\"(?:warning|error|critical)\"")
_QUIET = frozenset({"redis"})
"""Children whose warnings are about the machine, not about Callboard; `doctor` reports the important ones."""


class Output:
    """A sink for the supervisor; thread-safe, and it never fails because of a closed terminal or a full disk."""

    def __init__(self, log: Path, *, verbose: bool, command: str = "up") -> None:
        private_folder(log.parent)
        self._command = command
        self._path = log
        self._file = RotatedFile(MAX_LOG_BYTES, KEPT_LOGS)
        self._file.append(log, b"")  # raises if it can never be written
        self._is_writable = True
        self._verbose = verbose
        self._colours: dict[str, str] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        """Record one line of one child."""
        line = one_line(redact(line))
        with self._lock:
            self._write_log(name, line)
            if self._verbose or (name not in _QUIET and _ALARMING.search(line)):
                colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
                _show(f"{click.style(f'{name:<9}', fg=colour)} {line}")

    def say(self, line: str) -> None:
        """Show a line of this process on stdout."""
        self._own(line, line, err=False)

    def note(self, sentence: str) -> None:
        """Show progress on stderr."""
        self._own(sentence, click.style(sentence, dim=True))

    def warn(self, sentence: str) -> None:
        """Show a warning of this process on stderr."""
        self._own(f"WARNING {sentence}", _warning(sentence))

    def stream(self, name: str) -> TextIO:
        """Return a text stream that writes to this sink, for a logging handler of this process."""
        return cast(TextIO, _Lines(self, name))

    def close(self) -> None:
        """Close the file, and discard what cannot be written, so that the process can end."""
        with contextlib.suppress(OSError):  # a full disk may refuse the rest
            self._file.close()
        _flush_or_discard(sys.stdout)
        _flush_or_discard(sys.stderr)

    def _own(self, line: str, coloured: str, *, err: bool = True) -> None:
        """Write a line of this process with its time, as its children's lines have one, and show it."""
        with self._lock:
            self._write_log(self._command, f"{stamp()} {redact(line)}")
            _show(coloured, err=err)

    def _write_log(self, name: str, line: str) -> None:
        """Write the line to the log file; warn once on the terminal while that fails."""
        try:
            self._file.append(self._path, f"{name:<9} {line}\n".encode(errors="backslashreplace"))
            self._is_writable = True
        except OSError as error:
            if self._is_writable:
                what = f"{self._path} cannot be written ({error.strerror})"
                _show(_warning(f"{what}; free space, or lines will be missing."))
            self._is_writable = False


class _Lines(io.TextIOBase):
    """A stream that passes each line to the output."""

    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._output(self._name, line)
        return len(text)


def _warning(sentence: str) -> str:
    return f"{click.style('warning:', fg='yellow')} {sentence}"


def _show(line: str, *, err: bool = True) -> None:
    """Print the line if that is possible.

    A closed terminal or pipe, or a full disk, is no reason to stop: the log file has the line. The next line tries
    again.
    """
    with contextlib.suppress(OSError, ValueError):
        click.echo(line, err=err)


def _flush_or_discard(stream: TextIO | None) -> None:
    """Flush the stream, or discard its buffer: Python would retry at exit and end with status 120."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
