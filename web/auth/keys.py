"""The API keys of requests: looked up at most twice a second each, compared in constant time."""

from __future__ import annotations

import hmac
import logging
import os
import time
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

from bus.identity.credentials import keys
from bus.identity.credentials.credential import Caller
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from bus.identity.credentials.keys import USED_EVERY_MS, ApiKey
from config.database.shared_secret import shared_secret
from config.errors import CallboardError

if TYPE_CHECKING:
    from bus.journal import Journal

log = logging.getLogger(__name__)

FRESH_S = 0.5
"""Seconds that a looked-up key is used for: a revocation takes effect everywhere within these and a query."""
MAX_KNOWN = 10_000
K = TypeVar("K")
V = TypeVar("V")
_NO_DIGEST = "0" * 64


class KeyVerifier:
    """Finds the callers of API keys; one per process.

    Ids that this deployment did not make are refused without a query and without being kept (``KeyForm.id_of``), so
    that guesses cost neither memory nor the database anything.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.form = KeyForm(partial(shared_secret, journal.database, SECRET_NAME))
        self._known: dict[str, tuple[float, ApiKey | None]] = {}
        """By id: a key and when it was looked up; None: it is not valid."""
        self._checked: dict[bytes, tuple[float, Caller]] = {}
        """By the mark of a whole key: its caller and when the key was looked up."""
        self._mark_key = os.urandom(32)
        self._noted_s: dict[str, float] = {}

    def caller(self, text: str) -> Caller | None:
        """Return who acts with this key, or None; the work is the same for each reason."""
        # The two HMACs of a check take a tenth of a millisecond where others use the processor's caches: OpenSSL.
        mark = blake2b(text.encode(), digest_size=16, key=self._mark_key).digest()
        cache_entry = self._checked.get(mark)
        if cache_entry is not None and time.monotonic() - cache_entry[0] < FRESH_S:
            return cache_entry[1]
        at_s, caller = self._check(text)
        if caller is not None:
            keep(self._checked, mark, (at_s, caller))
        return caller

    def _check(self, text: str) -> tuple[float, Caller | None]:
        """Return who acts with this key, or None, and when that was looked up."""
        key_id = self.form.id_of(text)
        at_s, key = self._live(key_id) if key_id is not None else (0.0, None)
        matches = hmac.compare_digest(self.form.digest(text), key.digest if key is not None else _NO_DIGEST)
        if key is None or not matches:
            return at_s, None
        self._note_use(key)
        return at_s, key.caller

    def _live(self, key_id: str) -> tuple[float, ApiKey | None]:
        now_s = time.monotonic()
        at_s, key = self._known.get(key_id, (-FRESH_S, None))
        if now_s - at_s < FRESH_S:
            return at_s, key
        with self.journal.database.read() as connection:
            key = keys.live(connection, [key_id]).get(key_id)
        keep(self._known, key_id, (now_s, key))
        return now_s, key

    def _note_use(self, key: ApiKey) -> None:
        """Record the use soon, on another thread and at most once a minute."""
        now_s = time.monotonic()
        if now_s - self._noted_s.get(key.id, -USED_EVERY_MS) < USED_EVERY_MS / 1000:
            return
        self._noted_s[key.id] = now_s
        self.journal.loop.submit(self.journal.loop.write(self._record_use, key.id))

    def _record_use(self, key_id: str) -> None:
        try:
            with self.journal.database.write() as connection:
                keys.note_use(connection, key_id)
        except CallboardError as error:  # of no importance to the request
            log.info("use of an API key not recorded: %s", error, extra={"key_id": key_id})


def keep(cache: dict[K, V], name: K, value: V) -> None:
    """Add an entry; those kept before are dropped when they are too many."""
    if len(cache) >= MAX_KNOWN:
        cache.clear()
    cache[name] = value
