"""The keys that sign live events, so that a client that may publish in Redis cannot forge a run's events.

Each channel's key is derived from one secret of the deployment, so that an event of one run is not valid in another.
The secret is read when it is first needed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets as randomness
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from config.clock import epoch_ms
from config.database.engine import Database
from config.database.tables import secrets
from config.redaction import register_secrets

log = logging.getLogger(__name__)

SECRET_NAME = "live-events"
SECRET_BYTES = 32
RETRY_S = 1.0
"""Seconds between two attempts to read the secret while the database is away."""
_TAG_BYTES = 16
_TAIL = 1 + 2 * _TAG_BYTES
"""What stands behind a body: a line end and the tag in hexadecimal, so that the entry stays readable in Redis."""


class Keyring:
    """One per process. A process that only publishes hints never reads the secret."""

    def __init__(self, read_secret: Callable[[], Awaitable[str]]) -> None:
        self._read_secret = read_secret
        self._secret = b""
        self._reading: asyncio.Task[None] | None = None
        self._failed_at_s = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether the secret is known."""
        return bool(self._secret)

    async def open(self) -> bool:
        """Read the secret unless it is known, and return whether it is; concurrent callers share one attempt."""
        if self._secret:
            return True
        if self._reading is None or self._reading.done():
            if asyncio.get_running_loop().time() - self._failed_at_s < RETRY_S:
                return False
            self._reading = asyncio.get_running_loop().create_task(self._read())
        await asyncio.shield(self._reading)
        return self.is_open

    async def _read(self) -> None:
        try:
            self._secret = bytes.fromhex(await self._read_secret())
        except Exception as error:  # of any kind: live events are hints, and the log in SQL is read instead
            self._failed_at_s = asyncio.get_running_loop().time()
            log.warning("live events cannot be signed or verified yet: %s: %s", type(error).__name__, error)

    def key_of(self, channel: str) -> bytes:
        """Return the key of a channel; the secret has to be known."""
        assert self._secret
        return hmac.digest(self._secret, channel.encode(), "sha256")


def sign(key: bytes, body: bytes) -> bytes:
    """Return the body with its tag behind it."""
    return b"%b\n%b" % (body, _tag(key, body))


def verified_body(key: bytes, signed: bytes) -> bytes | None:
    """Return the body without its tag, or None when the tag is not valid for this key."""
    body = signed[:-_TAIL]
    is_ours = signed[-_TAIL : 1 - _TAIL] == b"\n" and hmac.compare_digest(signed[1 - _TAIL :], _tag(key, body))
    return body if is_ours else None


def _tag(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_TAG_BYTES].hex().encode()


# --- the secret in SQL


def shared_secret(database: Database, name: str) -> str:
    """Return the secret of that name, the same in every process: 64 hexadecimal digits.

    Raises:
        DatabaseUnreachable, DatabaseBusy, DatabaseReadOnly, DatabaseFull: it cannot be read, or not be made.
    """
    found = _read(database, name)
    if found is None:
        made = {"name": name, "value": randomness.token_hex(SECRET_BYTES), "created_ms": epoch_ms()}
        with suppress(IntegrityError), database.write() as connection:  # another process may be quicker
            connection.execute(insert(secrets), made)
        found = _read(database, name)
    assert found is not None
    register_secrets([found])
    return found


def _read(database: Database, name: str) -> str | None:
    with database.read() as connection:
        return connection.execute(select(secrets.c.value).where(secrets.c.name == name)).scalar()
