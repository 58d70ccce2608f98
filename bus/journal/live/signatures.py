"""Signatures of live events, so that a client that may publish in Redis cannot forge a run's events.

Each channel's key is derived from one secret of the deployment, so that an event of one run is not valid in another.
The secret is read when it is first needed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

from bus.journal.log.line import Line, unpack

log = logging.getLogger(__name__)

SECRET_NAME = "live-events"
RETRY_S = 1.0
"""Seconds between two attempts to read the secret while the database is away."""
WARN_EVERY_S = 60.0
"""Seconds between two warnings about what was dropped."""
HINT_EVERY_S = 1.0
"""Seconds between two hints to a run's readers to query SQL, however many forged events arrive."""
_TAG_BYTES = 16
_TAIL = 1 + 2 * _TAG_BYTES
"""What stands behind a body: a line end and the tag in hexadecimal, so that the entry stays readable in Redis."""


class Keyring:
    """Has the keys of channels; turns what Redis holds into events, and drops what this deployment did not sign.

    A dropped event may have been a genuine one that was damaged on its way. One per process, on its loop. A process
    that only publishes hints never reads the secret.
    """

    def __init__(self, read_secret: Callable[[], Awaitable[str]]) -> None:
        self.dropped = 0
        """How many bodies were dropped."""
        self._read_secret = read_secret
        self._secret = b""
        self._reading: asyncio.Task[None] | None = None
        self._failed_at_s = float("-inf")
        self._keys: dict[str, bytes] = {}  # of followed channels
        self._warned_at_s = float("-inf")
        self._hinted: dict[str, float] = {}

    @property
    def is_open(self) -> bool:
        """Whether the secret is known."""
        return bool(self._secret)

    def open_soon(self) -> None:
        """Begin to read the secret, unless it is being read or could not be read a moment ago."""
        loop, is_reading = asyncio.get_running_loop(), self._reading is not None and not self._reading.done()
        if not is_reading and loop.time() - self._failed_at_s >= RETRY_S:
            self._reading = loop.create_task(self._read(), context=Context())

    async def open(self) -> bool:
        """Read the secret unless it is known, and return whether it is; concurrent callers share one attempt."""
        if not self._secret:  # asked for each batch
            self.open_soon()
            if self._reading is not None and not self._reading.done():
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

    def verify_published(self, channel: str, signed: bytes) -> list[Line]:
        """Return the events of a published body, or nothing where it was not signed for this channel."""
        if not self._secret:  # it cannot be verified yet; readers query SQL
            self.open_soon()
            return []
        key = self._keys.get(channel)
        if key is None:
            key = self._keys[channel] = self.key_of(channel)
        return self._events(key, channel, signed)

    def verify_stored(self, channel: str, entries: Any) -> list[Line]:
        """Return the events of a stream's entries, which were signed as they were published; the keyring is open."""
        key = self._keys.get(channel) or self.key_of(channel)
        return [
            line for _, fields in entries for line in self._events(key, channel, fields[1] if len(fields) == 2 else b"")
        ]

    def should_hint(self, channel: str) -> bool:
        """Return whether the channel's readers, who got nothing of a body, should query SQL now."""
        now_s = time.monotonic()
        if now_s - self._hinted.get(channel, float("-inf")) < HINT_EVERY_S:
            return False
        self._hinted[channel] = now_s
        return True

    def forget(self, channel: str) -> None:
        """Drop what is kept of a channel that has no reader any more."""
        self._keys.pop(channel, None)
        self._hinted.pop(channel, None)

    def _events(self, key: bytes, channel: str, signed: bytes) -> list[Line]:
        body = verified_body(key, signed)
        if body is None:
            self._drop(channel, len(signed))
            return []
        return unpack(body)

    def _drop(self, where: str, size: int) -> None:
        """Count one body, and warn at most once a minute; its content is never logged."""
        self.dropped += 1
        now_s = time.monotonic()
        if now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            log.warning(
                "dropped what no process of this deployment signed, %s so far, the last of %s bytes in %s; "
                "see who else may write to Redis, and that all processes share one database",
                self.dropped,
                size,
                where,
            )


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
