"""Hidden and reordering characters: written as their code points, or escaped so that a text stays on one line.

Text of a model, a tool or a file may have characters that a terminal or page does not show (tag characters, zero
width), that reorder text (bidirectional controls), or that move a cursor (C0, C1). The page's ``dom/visible.js`` has
the same rules. Joiners stay where scripts and emoji need them.
"""

from __future__ import annotations

import re
from json import dumps

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
# Unicode's Default_Ignorable_Code_Point and bidirectional controls, without the joiners and variation selectors.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Arabic, the Indic scripts and their neighbours join their letters; pictures join pictures.
_JOINED = "\u0600-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
_PICTURE = "\u2190-\u2bff\U0001f000-\U0001faff"
_JOINER = (
    f"(?<![{_JOINED}{_PICTURE}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}{_PICTURE}])"
    "|(?<![^\u200c\u200d\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
_HIDDEN = re.compile(f"[{_CONTROLS}{_UNSEEN}]|{_JOINER}")
_UNSAFE_IN_JSON = re.compile(f"[\x7f-\x9f{_UNSEEN}\u200c\u200d\ufe00-\ufe0f]")
JOINERS = "\u200c\u200d"


def visible(text: str) -> str:
    """Return the text with each hidden character written as ``⟨U+202E⟩``; line ends and tabs stay."""
    return _HIDDEN.sub(_written, text)


def without_hidden(text: str) -> str:
    """Return the text without its hidden characters; line ends and tabs stay."""
    return _HIDDEN.sub("", text)


def first_hidden(text: str) -> str | None:
    """Return the first hidden character of a text, as ``visible`` writes it; None where there is none."""
    match = _HIDDEN.search(text)
    return _written(match) if match is not None else None


def _written(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"


def escaped_json(json: str) -> str:
    """Return equal JSON with hidden characters escaped."""
    return _UNSAFE_IN_JSON.sub(lambda match: dumps(match[0])[1:-1], json)


# Everything that ends a line somewhere, moves a terminal's cursor, reverses or hides text, or cannot
# be encoded. The joiners U+200C and U+200D stay: scripts and emoji need them.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def one_line(text: str) -> str:
    """Return the text with every character escaped that could break, colour or hide a line."""
    return _HOSTILE.sub(lambda match: _escaped(match[0]), text.translate(_ESCAPES))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


_ESCAPES = {code: _escaped(chr(code)) for code in range(256) if _HOSTILE.fullmatch(chr(code))}
"""Those of Latin-1, which are most of them: translating takes a tenth of the time."""
