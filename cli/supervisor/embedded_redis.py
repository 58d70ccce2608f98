"""The embedded Redis: a child process on a unix socket in the state folder.

Callboard never uses a server that it finds on the default port, since that belongs to another application.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from config.database.migrate import make_folder
from config.private_files import private_folder
from config.redis.errors import RedisUnreachable
from config.redis.program import program_of
from config.redis.server import answers, socket_path
from config.redis.url import socket_url
from config.settings import Settings

ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedRedis:
    """A server that can be started: its socket and its command."""

    socket: Path
    folder: Path
    """Folder of its append-only file."""
    argv: tuple[str, ...]

    @property
    def url(self) -> str:
        """The URL for redis-py; Celery needs ``broker_form`` of it."""
        return socket_url(self.socket)

    def clear(self) -> None:
        """Remove a predecessor's socket; the pid lock guarantees that no process uses it."""
        self.socket.unlink(missing_ok=True)

    def set_aside(self) -> Path:
        """Move unreadable data aside and return its new folder; runs and events are in SQL."""
        folder = self.folder.with_name(f"{self.folder.name}.unreadable-{int(time.time())}")
        self.folder.rename(folder)
        self.folder.mkdir(mode=0o700)
        return folder

    def wait_until_it_answers(self) -> None:
        """Return when it answers PING.

        Raises:
            RedisUnreachable: it did not within ten seconds.
        """
        until = time.monotonic() + ANSWER_TIMEOUT_S
        while not answers(self.socket):
            if time.monotonic() > until:
                raise RedisUnreachable(f"the embedded Redis does not answer on {self.socket}; see logs/up.log.")
            time.sleep(0.01)  # a socket that is not there yet has nothing to wait on


def plan(settings: Settings) -> EmbeddedRedis | None:
    """Return the server that this machine can run for the state folder, or None if none is installed.

    Raises:
        SettingInvalid: ``embedded`` names a program that is not installed.
        STATE_DIR_UNWRITABLE: the state folder cannot be created.
    """
    binary = program_of(settings.embedded)
    if binary is None:
        return None
    make_folder(settings)
    folder = private_folder(settings.state / "redis")
    socket_file = socket_path(settings.state)
    # No TCP port; appended data is on disk within a second; no key is evicted when memory is short.
    options = "--port 0 --unixsocketperm 700 --appendonly yes --appendfsync everysec --maxmemory-policy noeviction"
    where = ("--unixsocket", str(socket_file), "--dir", str(folder))
    argv = (binary, *where, *options.split(), "--save", "", "--loglevel", "warning")
    return EmbeddedRedis(socket=socket_file, folder=folder, argv=argv)
