"""Secrets that a process recognises without having them: it has keyed digests of their values, and their shapes.

A shape is the lengths of the runs of letters and digits, and of the other characters between them: it finds the places
of a text that are worth a digest. The key is made anew at each start, so digests of two starts cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

MIN_CHARS = 16
"""Shorter values get no digest: an attacker who has the key could find them by trying."""
_RUN = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]+")
_WORD, _OTHER = "[A-Za-z0-9]", "[^A-Za-z0-9]"


def digests_of(values: Iterable[str], key: bytes) -> str:
    """Return the digests of the values that are long enough, as ``Digests`` reads them: ``key shape:digest …``."""
    digests = sorted(f"{_shape(value)}:{_digest(value, key)}" for value in {*values} if len(value) >= MIN_CHARS)
    return " ".join([key.hex(), *digests]) if digests else ""


class Digests:
    """Finds in a text the values whose digests it has; their neighbours have to be no letters or digits."""

    def __init__(self, written: str) -> None:
        key, *entries = written.split() or [""]
        self._key = bytes.fromhex(key)
        pairs = [entry.split(":") for entry in entries]
        self._digests = frozenset(digest for _, digest in pairs)
        self._patterns = [_pattern(shape) for shape in sorted({shape for shape, _ in pairs})]

    def replace(self, text: str, replacement: str) -> str:
        """Return the text with ``replacement`` for each of the values."""
        for pattern in self._patterns:
            parts, end = list[str](), 0
            for match in pattern.finditer(text):
                begins, ends = match.span(1)
                if begins >= end and _digest(match[1], self._key) in self._digests:
                    parts += [text[end:begins], replacement]
                    end = ends
            text = "".join([*parts, text[end:]]) if parts else text
        return text


def _digest(value: str, key: bytes) -> str:
    return blake2b(value.encode("utf-8", "surrogateescape"), key=key, digest_size=16).hexdigest()


def _shape(value: str) -> str:
    """Return ``a4.1.12`` for four letters or digits, another character, and twelve; ``b`` if it begins with another."""
    lengths = ".".join(str(len(run)) for run in _RUN.findall(value))
    return f"{'a' if re.match(_WORD, value) else 'b'}{lengths}"


def _pattern(shape: str) -> re.Pattern[str]:
    """Return what finds the shape at each place, also where two places overlap; it has no repeat without a bound."""
    kinds = (_WORD, _OTHER) if shape[0] == "a" else (_OTHER, _WORD)
    runs = [f"{kinds[number % 2]}{{{length}}}" for number, length in enumerate(shape[1:].split("."))]
    before = f"(?<!{_WORD})" if shape[0] == "a" else ""
    after = f"(?!{_WORD})" if runs[-1].startswith(_WORD) else ""
    return re.compile(f"{before}(?=({''.join(runs)}){after})")
