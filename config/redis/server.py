"""A Redis server: the requirements it has to meet, and the socket of a state folder's own one.

It answers, and it never evicts keys. `up` starts the one of a state folder; this machine's other processes find it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from config.errors import SettingInvalid
from config.private_files import open_private
from config.redis.errors import RedisRefused, RedisUnreachable
from config.redis.url import broker_form, socket_url, without_password

CONNECT_TIMEOUT_S = 2.0
SAFE_POLICY = "noeviction"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerFacts:
    """Facts a server reports."""

    version: str
    policy: str
    """``maxmemory-policy``; any but noeviction loses queued messages when memory is short."""
    persists: bool
    """Whether it keeps an append-only file; without one a restart forgets hints and hot logs, never runs."""
    run_id: str
    """The id of the server's process: two URLs with one id lead to one server."""
    max_bytes: int
    """``maxmemory``; 0: no limit."""


def ask(url: str) -> ServerFacts:
    """Return the server's facts.

    Raises:
        RedisUnreachable: no server answers at the URL, or it refuses the connection.
        SettingInvalid: this is not a Redis URL.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    safe_url = without_password(url)
    try:
        client = redis.Redis.from_url(
            url, socket_timeout=CONNECT_TIMEOUT_S, socket_connect_timeout=CONNECT_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:
        raise SettingInvalid(
            f"'{safe_url[:80]}' is not a Redis URL; use redis://host:6379/0, rediss://… or unix:///path?db=0."
        ) from error
    try:
        with client:
            facts = client.info()
    except (redis.RedisError, OSError) as error:
        raise RedisUnreachable(
            f"Redis at {safe_url} does not answer ({_reason(error)}); start it, or correct CALLBOARD_REDIS_URL "
            "(without it, ./callboard up starts its own)."
        ) from error
    return ServerFacts(
        version=str(facts.get("valkey_version") or facts.get("redis_version") or "unknown"),
        policy=str(facts.get("maxmemory_policy", SAFE_POLICY)),
        persists=bool(int(facts.get("aof_enabled", 0))),
        run_id=str(facts.get("run_id", "")),
        max_bytes=int(facts.get("maxmemory", 0)),
    )


def require_usable(url: str) -> ServerFacts:
    """Return the server's facts if it meets the requirements.

    Raises:
        RedisUnreachable: no server answers at the URL.
        RedisRefused: it evicts keys, and with them unread messages.
    """
    facts = ask(url)
    if facts.policy != SAFE_POLICY:
        raise RedisRefused(
            f"Redis at {without_password(url)} evicts keys when memory is short (maxmemory-policy {facts.policy}), and "
            "queued messages with them. Run `redis-cli config set maxmemory-policy noeviction` and write the same "
            "line in redis.conf.",
            policy=facts.policy,
        )
    return facts


def require_broker(url: str) -> None:
    """Return if a broker other than Redis (RabbitMQ, ...) answers.

    Raises:
        RedisUnreachable: it does not; the message names CALLBOARD_BROKER_URL.
    """
    from kombu import Connection

    try:
        with Connection(broker_form(url), connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.ensure_connection(max_retries=1, timeout=CONNECT_TIMEOUT_S)
    except Exception as error:  # each transport has its own errors
        raise RedisUnreachable(
            f"the broker at {without_password(url)} does not answer ({_reason(error)}); start it, or correct "
            "CALLBOARD_BROKER_URL."
        ) from error


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__).rstrip(".")[:160]


MAX_SOCKET_PATH = 100
"""Bytes. The kernel's limit is 108 with the closing zero, and a temporary name may be longer than the final one."""


def find_running(state: Path) -> str | None:
    """Return the URL of the state folder's own server if it answers."""
    path = socket_path(state, make=False)
    return socket_url(path) if answers(path) else None


def answers(path: Path, timeout_s: float = 1.0) -> bool:
    """Return whether a Redis answers PONG on this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def socket_path(state: Path, *, make: bool = True) -> Path:
    """Return the socket's path: in the state folder, or in the runtime folder if that path is too long."""
    path = state / "redis.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    pointer_file = state / "redis.sock.path"
    with contextlib.suppress(OSError):
        before = Path(pointer_file.read_text())
        if not make or _is_ours(before.parent):
            return before
    if not make:
        return path
    path = _runtime_folder(state) / "redis.sock"
    with os.fdopen(open_private(pointer_file), "w") as file:
        file.write(str(path))
    return path


def _runtime_folder(state: Path) -> Path:
    """Return a private folder with a short path; the same each time unless another user owns that name."""
    name = f"callboard-{os.getuid()}-{hashlib.sha256(os.fsencode(state)).hexdigest()[:16]}"
    places = [
        Path(candidate) for candidate in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp") if candidate
    ]
    fitting = [
        candidate for candidate in places if len(os.fsencode(candidate / name / "redis.sock")) <= MAX_SOCKET_PATH
    ]
    runtime = next((candidate for candidate in fitting if os.access(candidate, os.W_OK)), places[-1])
    folder = runtime / name
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    return folder if _is_ours(folder) else Path(tempfile.mkdtemp(prefix="callboard-", dir=runtime))


def _is_ours(folder: Path) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
