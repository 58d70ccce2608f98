"""Redaction of streamed text: a piece goes out at once, unless its end may be the beginning of a secret.

What goes out, joined, is what the redaction of the whole text returns. Held back is only what has begun a match and not
finished it, and a match that such a beginning overlaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agents.governance.guardrails.scan import Scan
from config.redaction import REDACTED
from config.redaction.redacted_data import Detection

MAX_HELD_CHARS = 16_384
"""Longest text that is held. A longer token, which began like a secret, is replaced up to the next blank."""
SLICE_CHARS = 4096
"""Characters of a long piece that are examined at a time."""

KEPT_CHARS = 4096
"""Characters of prose that is too long to be held which are still held."""

_BLANK = re.compile(r"\s")
_TOKEN = re.compile(r"\S*")
_BLANKS_AND_TOKEN = re.compile(r"\s*\S*")
OnFound = Callable[[Sequence[Detection]], None]


class StreamRedactor:
    """Redacts one text that arrives in pieces; ``add`` and ``rest`` return what may be shown."""

    def __init__(self, scan: Scan, on_found: OnFound = lambda detections: None) -> None:
        """``on_found`` gets what was found before anything of the piece is returned; ``add`` raises what it raises."""
        self._clean, self._on_found = scan.clean, on_found
        self._may_begin, self._unfinished = scan.start.search, scan.unfinished
        self._held = ""
        self._before = ""  # the last character that was not held: a word may begin only where none continues
        self._skips: re.Pattern[str] | None = None
        self.is_changed = False
        """Whether something was replaced."""

    def add(self, piece: str) -> str:
        """Return what may be shown now, often the piece itself."""
        if len(piece) > SLICE_CHARS:
            return "".join(self.add(piece[at : at + SLICE_CHARS]) for at in range(0, len(piece), SLICE_CHARS))
        if self._skips is not None:
            piece = self._behind_skipped(piece)
        if not piece:
            return ""
        before, held = self._before, self._held
        text = before + held + piece
        first = self._may_begin(text, len(before))
        if first is not None:
            return self._examined(text, len(before), first)
        self._held, self._before = "", piece[-1]
        return held + piece if held else piece

    def rest(self) -> str:
        """Return what was held, redacted; to be called at the end of the text."""
        held, self._held = self._held, ""
        return self._cleaned(held)

    def _examined(self, text: str, before: int, first: re.Match[str]) -> str:
        """Return what may be shown of the text behind the characters ``before``; ``first`` may begin a match."""
        start, end = first.span()
        if end == len(text):  # the start itself reaches the end of the text: nothing before it is unfinished
            clean_text, cut = "", start
        else:
            clean_text, cut = self._finished(text, start)
        if start > before:
            clean_text = text[before:start] + clean_text
        self._before, self._held = text[cut - 1] if cut else "", text[cut:]
        return clean_text if len(text) - cut <= MAX_HELD_CHARS else clean_text + self._overflown()

    def _finished(self, text: str, first: int) -> tuple[str, int]:
        """Return what is finished, redacted, and where it ends; a match may begin at ``first`` or behind it."""
        begins = self._unfinished(text, first)
        cut = begins if begins is not None else len(text)
        if first < cut < len(text):
            clean_text, findings = self._clean(text[first:])
            if not findings:
                return text[first:cut], cut
            if self._clean(text[first:cut])[0] + self._clean(text[cut:])[0] != clean_text:
                return "", first  # a match lies across the cut
        return self._cleaned(text[first:cut]), cut

    def _cleaned(self, text: str) -> str:
        if not text:
            return ""
        clean_text, detections = self._clean(text)
        if detections:
            self.is_changed = True
            self._on_found(detections)
        return clean_text

    def _overflown(self) -> str:
        """Return what of the held text may be shown, which is too long to be held on.

        Of prose, which a pattern like ``.*`` holds, all but its end. Anything else is replaced, with what follows it up
        to a blank.
        """
        end = self._held[-KEPT_CHARS:]
        if _BLANK.search(end) and end.strip() and not self._clean(self._held)[1]:
            clean_text, self._held = self._held[:-KEPT_CHARS], end
            self._before = clean_text[-1]
            return clean_text
        self._skips = _BLANKS_AND_TOKEN if self._held[-1].isspace() else _TOKEN
        self._held, self.is_changed = "", True
        self._on_found([Detection("secrets", "redact")])
        return REDACTED

    def _behind_skipped(self, piece: str) -> str:
        """Return what of the piece is behind the skipped token; nothing where it does not end in it."""
        match = self._skips.match(piece) if self._skips is not None else None
        end = match.end() if match is not None else 0
        if end == len(piece):
            self._skips = self._skips if piece.isspace() else _TOKEN
            return ""
        self._skips = None
        return piece[end:]
