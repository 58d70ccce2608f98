"""Turns what Redis holds into events, and drops what no process of this deployment signed."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from bus.journal.live.signing_keys import Keyring, verified_body
from bus.journal.log.line import Line, unpack

log = logging.getLogger(__name__)

WARN_EVERY_S = 60.0
"""Seconds between two warnings."""
HINT_EVERY_S = 1.0
"""Seconds between two hints to a run's readers to query SQL, however many forged events arrive."""


class Forgeries:
    """Counts for one process. A dropped event may have been a genuine one that was damaged on its way."""

    def __init__(self) -> None:
        self.count = 0
        self._warned_at_s = float("-inf")
        self._hinted: dict[str, float] = {}

    def drop(self, where: str, size: int) -> None:
        """Count one, and warn at most once a minute; its content is never logged."""
        self.count += 1
        now_s = time.monotonic()
        if now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            log.warning(
                "dropped what no process of this deployment signed, %s so far, the last of %s bytes in %s; "
                "see who else may write to Redis, and that all processes share one database",
                self.count,
                size,
                where,
            )

    def should_hint(self, channel: str) -> bool:
        """Return whether the channel's readers should query SQL now."""
        now_s = time.monotonic()
        if now_s - self._hinted.get(channel, float("-inf")) < HINT_EVERY_S:
            return False
        self._hinted[channel] = now_s
        return True

    def forget(self, channel: str) -> None:
        """Drop what is kept of a channel that has no reader any more."""
        self._hinted.pop(channel, None)


class SignatureVerifier:
    """One per process, on its loop."""

    def __init__(self, keyring: Keyring) -> None:
        self.forgeries = Forgeries()
        self._keyring = keyring
        self._keys: dict[str, bytes] = {}
        self._opening: asyncio.Task[bool] | None = None

    def verify_published(self, channel: str, signed: bytes) -> list[Line]:
        """Return the events of a published body, or nothing where it was not signed for this channel."""
        if not self._keyring.is_open:  # it cannot be verified yet; readers query SQL
            self._open_soon()
            return []
        key = self._keys.get(channel)
        if key is None:
            key = self._keys[channel] = self._keyring.key_of(channel)
        return self._events(key, channel, signed)

    def verify_stored(self, channel: str, entries: Any) -> list[Line]:
        """Return the events of a stream's entries, which were signed as they were published; the keyring is open."""
        key = self._keys.get(channel) or self._keyring.key_of(channel)
        return [
            line for _, fields in entries for line in self._events(key, channel, fields[1] if len(fields) == 2 else b"")
        ]

    def forget(self, channel: str) -> None:
        """Drop what is kept of a channel that has no reader any more."""
        self._keys.pop(channel, None)
        self.forgeries.forget(channel)

    def _events(self, key: bytes, channel: str, signed: bytes) -> list[Line]:
        body = verified_body(key, signed)
        if body is None:
            self.forgeries.drop(channel, len(signed))
            return []
        return unpack(body)

    def _open_soon(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._keyring.open())
