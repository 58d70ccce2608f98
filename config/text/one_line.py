"""Texts on one line of a log or a message."""

from __future__ import annotations

import re

# Everything that ends a line somewhere, moves a terminal's cursor, reverses or hides text, or cannot
# be encoded. The joiners U+200C and U+200D stay: scripts and emoji need them.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def one_line(text: str) -> str:
    """Return the text with every character escaped that could break, colour or hide a line."""
    return _HOSTILE.sub(lambda match: _escaped(match[0]), text.translate(_CONTROLS))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


_CONTROLS = {code: _escaped(chr(code)) for code in range(256) if _HOSTILE.fullmatch(chr(code))}
"""Those of Latin-1, which are most of them: translating takes a tenth of the time."""
