"""JSON Web Tokens: the public keys of an issuer's set, and tokens that one of them signed (RFC 7515 to 7519)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry

log = logging.getLogger(__name__)

PUBLIC_KEYS = ("RSA", "EC", "OKP")
"""Types of keys of which a set has the public half; a secret key is none."""
LEAST_RSA_CHARS = 342
"""Characters of an RSA modulus of 2048 bits."""
MAX_BYTES = 8000
"""Bytes of a header or a signature; the whole token is in a header of the request, which is limited too."""
USUAL_ALGORITHMS = {
    "RSA": "RS256",
    "P-256": "ES256",
    "P-384": "ES384",
    "P-521": "ES512",
    "secp256k1": "ES256K",
    "Ed25519": "EdDSA",
    "Ed448": "EdDSA",
}
"""The algorithm of a key that names none, by its curve or its type."""


class Signatures(JWSRegistry):
    """The signatures that count. Unknown headers are ignored, except critical ones."""

    max_header_length = max_signature_length = MAX_BYTES

    def __init__(self, algorithms: Collection[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)

    def get_alg(self, name: str) -> Any:  # the library exports no name for it
        if name == "EdDSA" and name in (self.allowed or ()):  # RFC 9864 renames it, and the library warns of each one
            return self.algorithms[name]
        return super().get_alg(name)


def header_of(token: str) -> Mapping[str, Any]:
    """Return the header of a token, unverified.

    Raises:
        JoseError, ValueError: it is none.
    """
    return jws.extract_compact(token.encode(), registry=Signatures(())).headers()


def verified(token: str, key: Any, algorithms: Collection[str]) -> jwt.Token:
    """Return a token whose signature is that of the key, or of a key of the set; its claims are not checked.

    Raises:
        JoseError, ValueError: it is not.
    """
    return jwt.decode(token, key, registry=Signatures(algorithms))


def public_keys(document: Any) -> Iterator[Key]:
    """Yield the public keys for signatures of a JWKS, without those that cannot be used.

    Raises:
        ValueError: it is no set of keys.
    """
    entries = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise ValueError("it is no set of keys")
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("kty") not in PUBLIC_KEYS or entry.get("use", "sig") != "sig":
            continue
        try:
            yield _usable(entry)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("a key of the issuer cannot be used: %s", type(error).__name__)


def _usable(entry: dict[str, Any]) -> Key:
    if entry["kty"] == "RSA" and len(str(entry["n"]).rstrip("=")) < LEAST_RSA_CHARS:  # no text is refused below
        raise ValueError("it is too short")
    return JWKRegistry.import_key(entry)


def algorithm_of(key: Key) -> str | None:
    """Return the algorithm that a key is for: the one that it names, or the usual one of its kind."""
    return key.alg or USUAL_ALGORITHMS.get(str(key.get("crv", key.key_type)))
