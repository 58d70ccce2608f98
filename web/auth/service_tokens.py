"""Service tokens: JWTs of the configured issuer, by which other services act as themselves, and the issuer's keys.

The public keys come from its JWKS: a file, or an address that is asked rarely.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import Key
from joserfc.jwt import JWTClaimsRegistry

from bus.identity.credentials.credential import Caller, Credential, CredentialKind
from config.egress.policy import allowed_in
from config.errors import CallboardError
from config.identity.principal import NAME, Principal, parse_mapping, roles_of
from config.settings import settings
from web import jwt
from web.auth.keys import DisabledPrincipals
from web.errors import ISSUER_UNREACHABLE
from web.jwt import algorithm_of, public_keys
from web.process import WebProcess

log = logging.getLogger(__name__)

RETRY_S = 10.0
"""Seconds between two fetches, however many tokens name an unknown key, and however often a fetch fails."""
FRESH_S = 300.0
"""Seconds after which the set is fetched again, so that a key that the issuer removed is no longer accepted."""
STALE_S = 3600.0
"""Seconds that keys are used for while the set cannot be fetched."""
TIMEOUT_S = 3.0
"""Seconds that the issuer may take to connect, and to send the next bytes."""
TOTAL_S = 6.0
"""Seconds that it may take to send them all."""
MAX_BYTES = 256 * 1024
PATIENCE_S = 1.0
"""Seconds that a request with an unknown key waits for a fetch."""
MAX_WAITING = 4
"""Requests that may hold a thread while they wait so; the others are answered at once."""


class KeySet:
    """The keys of one issuer by their ids; one per process.

    A thread of its own fetches them, so that an issuer that hangs holds no thread that answers requests.
    """

    def __init__(self, source: str, algorithms: Collection[str]) -> None:
        self._source = source
        self._algorithms = frozenset(algorithms)
        self._keys: dict[str, Key] = {}
        self._tried_s = self._fetched_s = float("-inf")
        self._lock = threading.Lock()
        self._over = threading.Event()
        """Set while no fetch is under way."""
        self._over.set()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)

    def key(self, key_id: str) -> Key | None:
        """Return the key of that id; None: the issuer has none, or another kind of key.

        Raises:
            ISSUER_UNREACHABLE: the keys could never be fetched, or not for an hour; or the key is unknown, and the last
                fetch failed or is under way.
        """
        if key_id not in self._keys or time.monotonic() - self._fetched_s >= FRESH_S:
            self._refresh()
        if key_id not in self._keys:
            self._wait()
        is_current = self._fetched_s >= self._tried_s  # before the look: a fetch may end meanwhile
        verification_key = self._keys.get(key_id)
        if time.monotonic() - self._fetched_s >= STALE_S or (verification_key is None and not is_current):
            raise ISSUER_UNREACHABLE()
        return verification_key

    def _refresh(self) -> None:
        """Begin to fetch the set, unless that was tried a moment ago or is under way."""
        with self._lock:
            now_s = time.monotonic()
            if not self._over.is_set() or now_s - self._tried_s < RETRY_S:
                return
            self._tried_s = now_s
            self._over.clear()
        threading.Thread(target=self._fetch, name="callboard-jwks", daemon=True).start()

    def _wait(self) -> None:
        """Wait a moment for the end of a fetch, unless several requests do."""
        if self._over.is_set() or not self._waiting.acquire(blocking=False):
            return
        try:
            self._over.wait(PATIENCE_S)
        finally:
            self._waiting.release()

    def _fetch(self) -> None:
        try:
            keys = dict(self._usable(json.loads(self._read())))
            self._keys, self._fetched_s = keys, time.monotonic()
        except (OSError, ValueError, RecursionError, CallboardError) as error:
            log.warning("keys of the issuer not fetched from %s: %s: %s", self._source, type(error).__name__, error)
        finally:
            self._over.set()

    def _read(self) -> bytes:
        if "://" not in self._source:
            return Path(self._source).read_bytes()
        from config.egress.bounded import Bounds  # takes 60 ms

        allowed = allowed_in(settings().http_allowed_hosts)
        return Bounds(max_bytes=MAX_BYTES, timeout_s=TIMEOUT_S, total_s=TOTAL_S, allowed=allowed).read(self._source)

    def _usable(self, document: dict[str, Any]) -> Iterator[tuple[str, Key]]:
        """Yield the keys of the allowed algorithms that have an id."""
        for key in public_keys(document):
            if key.kid is not None and algorithm_of(key) in self._algorithms:
                yield key.kid, key


LEEWAY_S = 10
"""Seconds by which the clock of the issuer may differ from this machine's."""
TYPES = frozenset({"jwt", "at+jwt"})
"""What the header ``typ`` may be; absent is usual, too."""


class ServiceTokens:
    """Finds the callers of service tokens; one per process."""

    def __init__(self, process: WebProcess) -> None:
        self._settings = settings = process.settings
        self._algorithms = settings.service_algorithm_names
        self._keys = KeySet(settings.service_jwks, self._algorithms)
        self._claims = JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": settings.service_issuer or ""},
            aud={"essential": True, "value": settings.service_audience or ""},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        self._roles = parse_mapping(settings.service_roles)
        self._disabled = DisabledPrincipals(process)

    def caller(self, token: str) -> Caller | None:
        """Return who acts with this token; None: it is not valid, whatever the reason.

        Raises:
            ISSUER_UNREACHABLE: the issuer's keys are not known.
        """
        try:
            claims = self._verified(token)
            principal = self._principal(claims)
        except (JoseError, ValueError, TypeError, OverflowError, RecursionError):  # of a hostile token
            return None
        is_long = claims["exp"] - claims["iat"] > self._settings.service_max_lifetime_s
        if is_long or self._settings.is_local(principal) or self._disabled.has(principal):
            return None
        credential = Credential(kind=CredentialKind.SERVICE, expires_ms=(claims["exp"] + LEEWAY_S) * 1000)
        return Caller(principal=principal, credential=credential)

    def _verified(self, token: str) -> dict[str, Any]:
        header = jwt.header_of(token)
        key_id, kind = header.get("kid"), header.get("typ", "JWT")
        # All of it before the issuer is asked for the key.
        if not isinstance(key_id, str) or not isinstance(kind, str) or kind.lower() not in TYPES:
            raise ValueError("not a token of a service")
        if header.get("alg") not in self._algorithms:
            raise ValueError("not an algorithm that is allowed")
        key = self._keys.key(key_id)
        if key is None:
            raise ValueError("not a key of the issuer")
        claims = jwt.verified(token, key, [str(jwt.algorithm_of(key))]).claims
        self._claims.validate(claims)
        if type(claims["exp"]) is not int or type(claims["iat"]) is not int:
            raise ValueError("not whole seconds")
        return claims

    def _principal(self, claims: dict[str, Any]) -> Principal:
        """Return the principal of the claims, which are those of a verified token."""
        claim = self._settings.service_tenant_claim
        tenant = claims.get(claim) if claim else "default"
        for name in (tenant, claims["sub"]):
            if not isinstance(name, str) or re.fullmatch(NAME, name) is None:
                raise ValueError("not a name")
        roles = roles_of(claims.get(self._settings.service_roles_claim), self._roles)
        return Principal(tenant=str(tenant), id=claims["sub"], roles=roles)
