"""Seals originals from which a guardrail removed something: encrypted with a key that the deployment alone has.

AES-256-GCM, with a nonce of its own for each. Its additional data bind an original to its run and its name, so that a
row that was moved to another run cannot be read there.
"""

from __future__ import annotations

import binascii
import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from config.clock import epoch_ms
from config.errors import Permanent, SettingInvalid, Topic
from config.ids import new_id
from config.settings import Settings

KEY_BYTES = 32
_NONCE_BYTES = 12


class SealKeyMissing(Permanent):
    """An original was sealed with a key that is not among the deployment's."""

    code = "seal_key_missing"
    status = 503
    retryable = True
    topic = Topic.CONFIGURATION
    text = (
        "the original was sealed with the key {key}, which CALLBOARD_SEAL_KEYS does not have; add that key to the list."
    )
    remedy = "Add the former key to `CALLBOARD_SEAL_KEYS`, after the present one."


class SealBroken(Permanent):
    """A sealed original cannot be decrypted: it was changed in the database, or moved to another run."""

    code = "seal_broken"
    status = 500
    text = "the sealed original cannot be decrypted: it was changed in the database, or moved there from another run."
    remedy = "Restore the row from a backup, and find out who changed it."


class Sealer:
    """Seals with the first key, and unseals with each; a key is named by the start of its SHA-256."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {hashlib.sha256(key).hexdigest()[:16]: key for key in keys}

    def seal(self, original: Any, bound_to: str) -> tuple[str, str]:
        """Return the key's name, and the encrypted JSON of an original as text."""
        name, key = next(iter(self._keys.items()))
        nonce = os.urandom(_NONCE_BYTES)
        plain = orjson.dumps(original, option=orjson.OPT_NON_STR_KEYS)
        return name, b64encode(nonce + _cipher(key).encrypt(nonce, plain, bound_to.encode())).decode()

    def unseal(self, key_name: str, sealed: str, bound_to: str) -> Any:
        """Return an original.

        Raises:
            SealKeyMissing: none of the keys has this name.
            SealBroken: it was changed, or moved to another run.
        """
        key = self._keys.get(key_name)
        if key is None:
            raise SealKeyMissing(key=key_name)
        try:
            data = b64decode(sealed, validate=True)
            return orjson.loads(_cipher(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound_to.encode()))
        except Exception as error:  # the library's own, which has no text, or of data that is none
            raise SealBroken from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """What is to be sealed, before it is written with its run."""

    what: str
    """``input``, ``answer``, ``thinking``, or ``result`` or ``arguments`` and the tool's name."""
    value: Any = field(repr=False)
    sealer: Sealer = field(repr=False)

    def row(self, run_id: str) -> dict[str, Any]:
        """Return the row of ``sealed_originals``."""
        key_name, sealed = self.sealer.seal(self.value, bound_to(run_id, self.what))
        row = {"id": new_id("org"), "run_id": run_id, "what": self.what, "key_name": key_name, "sealed": sealed}
        return row | {"created_ms": epoch_ms()}


def bound_to(run_id: str, what: str) -> str:
    """Return what an original is bound to."""
    return f"{run_id}\n{what}"


def sealer_of(settings: Settings) -> Sealer | None:
    """Return the deployment's sealer; None where it has no key, so that no original is kept.

    Raises:
        SettingInvalid: a key is not 32 bytes in base64.
    """
    return _sealer(settings.seal_keys.get_secret_value()) if settings.seal_keys is not None else None


@lru_cache(maxsize=8)
def _sealer(written: str) -> Sealer | None:
    keys = [_key(word.strip()) for word in written.split(",") if word.strip()]
    return Sealer(keys) if keys else None


def _key(written: str) -> bytes:
    try:
        key = b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingInvalid(
            f"a key of CALLBOARD_SEAL_KEYS is not {KEY_BYTES} bytes in base64; make one with `openssl rand -base64 32`."
        )
    return key


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
