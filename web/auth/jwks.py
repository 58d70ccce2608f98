"""The public keys of an issuer of tokens, from its JWKS: a file, or an address that is asked rarely."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Collection, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from web.errors import IssuerUnreachable

log = logging.getLogger(__name__)

RETRY_S = 10.0
"""Seconds between two fetches, however many tokens name an unknown key, and however often a fetch fails."""
FRESH_S = 300.0
"""Seconds after which the set is fetched again, so that a key that the issuer removed is no longer accepted."""
STALE_S = 3600.0
"""Seconds that keys are used for while the set cannot be fetched."""
TIMEOUT_S = 3.0
MAX_BYTES = 256 * 1024
PATIENCE_S = 1.0
"""How long a request with an unknown key waits for another request's fetch."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow no redirect: the keys come from the configured address or not at all."""


class KeySet:
    """The keys of one issuer by their ids; one per process."""

    def __init__(self, source: str, algorithms: Collection[str]) -> None:
        self._source = source
        self._algorithms = frozenset(algorithms)
        self._keys: dict[str, PyJWK] = {}
        self._tried_s = self._fetched_s = float("-inf")
        self._fetching = threading.Lock()
        self._opener = urllib.request.build_opener(_NoRedirects)

    def key(self, key_id: str) -> PyJWK | None:
        """Return the key of that id; None: the issuer has none, or another kind of key.

        Raises:
            IssuerUnreachable: the keys could never be fetched, or not for an hour.
        """
        if key_id not in self._keys or time.monotonic() - self._fetched_s >= FRESH_S:
            self._refresh(may_wait=key_id not in self._keys)
        if time.monotonic() - self._fetched_s >= STALE_S:
            raise IssuerUnreachable
        return self._keys.get(key_id)

    def _refresh(self, *, may_wait: bool) -> None:
        """Fetch the set unless that was tried a moment ago; one request at a time does, on its own thread."""
        if time.monotonic() - self._tried_s < RETRY_S:
            return
        if not self._fetching.acquire(timeout=PATIENCE_S if may_wait else 0):
            return
        try:
            if time.monotonic() - self._tried_s >= RETRY_S:
                self._fetch()
        finally:
            self._tried_s = time.monotonic()
            self._fetching.release()

    def _fetch(self) -> None:
        try:
            found = dict(self._usable(json.loads(self._read())))
        except (OSError, HTTPException, ValueError, TypeError, KeyError, RecursionError) as error:
            log.warning("keys of the issuer not fetched from %s: %s: %s", self._source, type(error).__name__, error)
            return
        self._keys, self._fetched_s = found, time.monotonic()

    def _read(self) -> bytes:
        if "://" not in self._source:
            return Path(self._source).read_bytes()
        with self._opener.open(self._source, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return data

    def _usable(self, document: dict[str, Any]) -> Iterator[tuple[str, PyJWK]]:
        """Yield the public signature keys of the allowed algorithms; a secret key is none."""
        for entry in document["keys"]:
            if entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig":
                continue
            try:
                key = PyJWK(entry)
            except PyJWTError as error:
                log.warning("a key of the issuer cannot be used: %s", type(error).__name__)
                continue
            if isinstance(key.key_id, str) and key.algorithm_name in self._algorithms:
                yield key.key_id, key
