"""Text of letters and digits, which is one word wherever it is copied to."""

from __future__ import annotations

import secrets
import string

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
