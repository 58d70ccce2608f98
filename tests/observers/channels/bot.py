"""The process of a channel, as users start it, beside a platform of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from config.folders import ROOT
from tests.fleet import bare_environment
from tests.observers.channels.fake_discord import TOKEN, FakeDiscord
from tests.ports import free_port

People = Mapping[str, tuple[str, str, str]]
"""A person's id -> the principal, its key, and what it decides."""


def table_of(people: People) -> str:
    """Return the table as a line of YAML; each key is a variable."""
    return json.dumps(
        {
            user: {"principal": name, "key": f"${{KEY_{number}}}", "decides": decides}
            for number, (user, (name, _, decides)) in enumerate(people.items(), 1)
        }
    )


class ChannelProcess:
    """One process of a channel at a time; ``with`` starts and ends it."""

    def __init__(self, folder: Path, name: str, lines: Sequence[str], people: People, **secrets: str) -> None:
        """``lines``: of its file. ``secrets``: variables of its environment."""
        self._folder, self._name = folder, name
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self.file = folder / "channels.yaml"
        self.file.write_text("\n".join(lines))
        self.environment = bare_environment(HOME=str(folder), CALLBOARD_DEBUG="0", **secrets)
        self.environment |= {f"KEY_{number}": key for number, (_, key, _) in enumerate(people.values(), 1)}

    def start(self) -> subprocess.Popen[bytes]:
        arguments = (self._name, "--config", str(self.file), "--state-dir", str(self._folder / "state"))
        command = [sys.executable, "-P", "-m", "cli", *arguments, "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        return self.process

    def __enter__(self) -> Self:
        self.start()
        self.until_ready()
        return self

    def until_ready(self) -> None:
        until = time.monotonic() + 40
        while self.status("/ready") != 200:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < until, self.log.read_text()[-3000:]
            time.sleep(0.05)  # another process; only its answers tell

    def status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code
        except OSError:
            return 0

    def until_logged(self, text: str) -> None:
        until = time.monotonic() + 20
        while text not in self.log.read_text():
            assert time.monotonic() < until, self.log.read_text()[-3000:]
            time.sleep(0.05)  # another process; its log is the only sign

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(15) == 0, self.log.read_text()[-3000:]


class Bot(ChannelProcess):
    """The process `./callboard discord`."""

    def __init__(self, folder: Path, discord: FakeDiscord, server: str, people: People, more: str = "") -> None:
        """``more``: further lines of the section ``discord``."""
        lines = [f"server: {server}", "discord:", "  token: ${DISCORD_TOKEN}", "  agent: tester"]
        lines += [f"  api: {discord.api}", f"  gateway: {discord.gateway}", f"  people: {table_of(people)}", more]
        super().__init__(folder, "discord", lines, people, DISCORD_TOKEN=TOKEN)
