"""The form of API keys: ``cbk_<id>_<secret><checksum>``, in letters and digits, which secret scanners recognise.

A part of the id is a MAC of the rest of it, so that ids that this deployment never made are refused without a query.
"""

from __future__ import annotations

import hmac
import re
import secrets
import string
import zlib
from collections.abc import Callable

PREFIX = "cbk_"
TICKET_PREFIX = "cbt_"
SECRET_NAME = "api-keys"
"""The deployment's secret that keys and tickets are hashed with, in table ``secrets``."""
SECRET_CHARS = 30
TICKET_CHARS = 30
_RANDOM_CHARS, _TAG_CHARS, _CHECKSUM_CHARS = 10, 6, 6
KEY = re.compile(
    rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM_CHARS + _TAG_CHARS}}})_[0-9A-Za-z]{{{SECRET_CHARS + _CHECKSUM_CHARS}}}"
)


class KeyForm:
    """Makes and recognises the keys of one deployment; reads its secret when it is first needed."""

    def __init__(self, read_secret: Callable[[], str]) -> None:
        self._read_secret = read_secret
        self._secret = b""

    def make(self) -> tuple[str, str]:
        """Return a new key's id and the key."""
        random = random_text(_RANDOM_CHARS)
        key_id = random + self._tag(random)
        start = f"{PREFIX}{key_id}_{random_text(SECRET_CHARS)}"
        return key_id, start + _checksum(start)

    def id_of(self, text: str) -> str | None:
        """Return the id of a well-formed key; None: this deployment made no such key."""
        match = KEY.fullmatch(text)
        if match is None or not hmac.compare_digest(_checksum(text[:-_CHECKSUM_CHARS]), text[-_CHECKSUM_CHARS:]):
            return None
        random, tag = match[1][:_RANDOM_CHARS], match[1][_RANDOM_CHARS:]
        return match[1] if hmac.compare_digest(self._tag(random), tag) else None

    def make_ticket(self) -> str:
        """Return a new ticket, whose last characters are a MAC of the others."""
        random = random_text(TICKET_CHARS)
        return TICKET_PREFIX + random + self._tag(random)

    def is_ticket(self, text: str) -> bool:
        """Return whether this deployment made the ticket."""
        start, tag = text[:-_TAG_CHARS], text[-_TAG_CHARS:]
        is_formed = len(text) == len(TICKET_PREFIX) + TICKET_CHARS + _TAG_CHARS and text.isascii()
        return is_formed and hmac.compare_digest(self._tag(start.removeprefix(TICKET_PREFIX)), tag)

    def digest(self, text: str) -> str:
        """Return the keyed hash of a key or a ticket, which is what the database has of it."""
        return hmac.digest(self.open(), text.encode(), "sha256").hex()

    def _tag(self, random: str) -> str:
        mac = hmac.digest(self.open(), b"id:" + random.encode(), "sha256")
        return encoded(int.from_bytes(mac[:8]), _TAG_CHARS)

    def open(self) -> bytes:
        """Read the secret unless it is known, and return it; not within a transaction, since it may have to be made."""
        if not self._secret:
            self._secret = bytes.fromhex(self._read_secret())
        return self._secret


def _checksum(text: str) -> str:
    return encoded(zlib.crc32(text.encode()), _CHECKSUM_CHARS)


# --- text of letters and digits, which is one word wherever it is copied to


ALPHABET = string.digits + string.ascii_letters


def random_text(chars: int) -> str:
    """Return that many random characters, of nearly 6 bits each."""
    return "".join(secrets.choice(ALPHABET) for _ in range(chars))


def encoded(number: int, chars: int) -> str:
    """Return a number's last ``chars`` digits to the base of 62."""
    digits = ""
    for _ in range(chars):
        number, digit = divmod(number, 62)
        digits = ALPHABET[digit] + digits
    return digits
