"""The keys live events are signed with, so that who can publish in Redis cannot put words into a run's mouth.

One secret of the deployment, read when it is first needed; from it one key a channel, so that what was said
in one run cannot be said again in another.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

SECRET_NAME = "live-events"
RETRY_S = 1.0
"""Seconds between two attempts to read the secret while the database is away."""
_TAG_BYTES = 16
_TAIL = 1 + 2 * _TAG_BYTES
"""What stands behind a body: a line end and the tag in hexadecimal, so that who looks into Redis can read it all."""


class Keyring:
    """One a process. Nothing is read before it is needed, and who only writes hints never needs it."""

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
        """Read the secret unless it is known, and return whether it is; who needs it waits for the same attempt."""
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
        except Exception as wrong:  # whatever it is: live events are hints, and the log in SQL is read instead
            self._failed_at_s = asyncio.get_running_loop().time()
            log.warning("live events cannot be signed or believed yet: %s: %s", type(wrong).__name__, wrong)

    def key_of(self, channel: str) -> bytes:
        """Return the key of a channel; the secret has to be known."""
        assert self._secret
        return hmac.digest(self._secret, channel.encode(), "sha256")


def sign(key: bytes, body: bytes) -> bytes:
    """Return the body with its tag behind it."""
    return b"%b\n%b" % (body, _tag(key, body))


def believed(key: bytes, signed: bytes) -> bytes | None:
    """Return the body that was signed, or None when it was not with this key."""
    body = signed[:-_TAIL]
    is_ours = signed[-_TAIL : 1 - _TAIL] == b"\n" and hmac.compare_digest(signed[1 - _TAIL :], _tag(key, body))
    return body if is_ours else None


def _tag(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_TAG_BYTES].hex().encode()
