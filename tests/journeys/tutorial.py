"""A reader of a tutorial: saves its files, types its commands in their order, and sees what it says is printed.

Every code block of a tutorial is one of these:

- a file, whose path is in its first line, as a comment;
- commands (`sh`). The block's title names another terminal, "in each terminal" all of them; "until Ctrl-C": the reader
  ends the command. `^C` as the text of another terminal ends what runs there;
- what the commands above it print (`text`): each line is in a line of the output, in this order, with `…` for anything.
  What a prompt is answered with stands behind it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.supervisor.child import guarded

HEADING_OR_BLOCK = re.compile(
    r"^## (?P<heading>[^\n]+)$|^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
SAVED = re.compile(r"(?:#|<!--) (\S+\.\w+)(?: -->)?\n")
IN_EACH, FOLLOWS, INTERRUPT = "in each terminal", "until Ctrl-C", "^C\n"
PROMPT = re.compile(r"^(Your answer.*): (\S+)$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
PATIENCE_S = 120
INSTALLS = "requirements.local.txt"
"""What these lines install, the environment of the tests has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What a reader does next, and what is printed."""

    heading: str
    language: str
    text: str
    title: str = ""
    output: str = ""


def steps(page: str) -> Iterator[Step]:
    """Yield the steps of a tutorial; a heading is one, too."""
    parts = [match.groupdict(default="") for match in HEADING_OR_BLOCK.finditer(page)]
    heading = ""
    for part, after in zip(parts, [*parts[1:], dict.fromkeys(parts[0], "")], strict=True):
        if part["heading"]:
            heading = part["heading"]
            yield Step(heading=heading, language="", text="")
        elif part["language"] != "text" or part["text"] == INTERRUPT:
            output = after["text"] if after["language"] == "text" and after["text"] != INTERRUPT else ""
            yield Step(
                heading=heading, language=part["language"], text=part["text"], title=part["title"], output=output
            )


class Typed:
    """Commands that run in a terminal."""

    def __init__(self, commands: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._changed = threading.Condition()
        self._printed = ""
        self._ended = False
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.commands = commands
        self.process = subprocess.Popen(
            guarded(("bash", "-c", commands)),
            cwd=folder,
            env=dict(environment),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._terminal = ours
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def printed(self) -> str:
        return COLOUR.sub("", self._printed)

    def prints(self, expected: str) -> None:
        """Wait until all lines of ``expected`` are printed; type the answer where one is a prompt."""
        lines = expected.splitlines()
        for number, line in enumerate(lines, 1):
            prompt = PROMPT.match(line)
            self._wait_for([*lines[: number - 1], prompt[1] if prompt else line])
            if prompt:
                os.write(self._terminal, f"{prompt[2]}\n".encode())

    def _wait_for(self, lines: list[str]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not missing(lines, self.printed) or self._ended, PATIENCE_S)
            lost = missing(lines, self.printed)
        assert not lost, f"{lost!r} is not printed by\n{self.commands}\nbut this:\n{self.printed}"

    def ends(self) -> int:
        """Wait for the end and return the status."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, PATIENCE_S), f"{self.commands}\n{self.printed}"
        return self.process.wait(PATIENCE_S)

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until the commands have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(PATIENCE_S)

    def _read(self) -> None:
        with suppress(OSError):  # the terminal's last process has ended
            while data := os.read(self._terminal, 65536):
                with self._changed:
                    self._printed += data.decode(errors="replace")
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def missing(expected: list[str], printed: str) -> str:
    """Return the first of the expected lines that is not printed behind those before it; empty if all are."""
    lines = iter(printed.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if not any(pattern.search(each) for each in lines):
            return line
    return ""


class Reader:
    """Plays a tutorial in a folder."""

    def __init__(self, folder: Path, replaced: Mapping[str, str], **environment: str) -> None:
        """``replaced``: what the tutorial names and a test has elsewhere, such as an address."""
        self.folder = folder
        self.replaced = dict(replaced)
        self._environment = environment
        self._memory = folder.parent / "variables.sh"
        self._memory.touch()
        self._in_each = ""
        self._terminals: dict[str, Typed] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in self._terminals.values():
            terminal.interrupt()

    def reads(self, page: str, at: Mapping[str, Callable[[Reader], None]] | None = None) -> None:
        """Do all that the page says; ``at``: what a reader does in the browser, by the heading that says so."""
        for written, ours in self.replaced.items():
            page = page.replace(written, ours)
        for step in steps(page):
            if not step.language:
                (at or {}).get(step.heading, lambda _: None)(self)
            elif step.language in ("sh", "text"):
                self._types(step)
            else:
                self._saves(step)

    def _saves(self, step: Step) -> None:
        match = SAVED.match(step.text)
        assert match, f"a block is a file with its path, commands, or what they print:\n{step.text}"
        path = self.folder / match[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)

    def _types(self, step: Step) -> None:
        if step.title == IN_EACH:
            self._in_each += step.text
            self._memory.write_text(self._memory.read_text() + step.text)
        elif step.title.endswith("terminal"):
            if before := self._terminals.pop(step.title, None):
                before.interrupt()
            if step.text != INTERRUPT:
                self._terminals[step.title] = Typed(f"{self._in_each}{step.text}", self.folder, self._environment)
                self._terminals[step.title].prints(step.output)
        else:
            self._types_here(step)

    def _types_here(self, step: Step) -> None:
        """Type into the first terminal, which keeps its variables and its folder."""
        lines = "".join(line for line in step.text.splitlines(keepends=True) if INSTALLS not in line)
        resumed = f'set -ea; . {self._memory}; cd "$PWD"; trap "export -p > {self._memory}" EXIT'
        typed = Typed(f"{resumed}\n{lines}", self.folder, self._environment)
        typed.prints(step.output)
        if step.title == FOLLOWS:
            typed.interrupt()
            return
        status = typed.ends()
        typed.prints(step.output)
        assert "Traceback" not in typed.printed, typed.printed
        assert status == 0 or step.output, f"status {status} of\n{step.text}\n{typed.printed}"
