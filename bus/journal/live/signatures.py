"""Turns what Redis holds into events, and drops what no process of this deployment signed."""

from __future__ import annotations

import asyncio
from typing import Any

from bus.journal.live.forgeries import Forgeries
from bus.journal.live.signing_keys import Keyring, verified_body
from bus.journal.log.line import Line, unpack


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
