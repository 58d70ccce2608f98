"""Texts as a platform may show them: without secrets and hidden characters, and in parts that are short enough."""

from __future__ import annotations

import re

from config.redaction import own_redactor
from config.text.visible import without_hidden

MAX_SHOWN_CHARS = 60_000
"""Of one answer; the run has the whole one."""
FENCE = "```"
_SPECIAL = re.compile(r"<(?=[@!#]|[A-Za-z][A-Za-z0-9+.-]{0,15}:)")
_MASKED = re.compile(r"\]\(")
"""Where a link is hidden behind a text, ``[bank](https://...)``; its address may be written in many ways."""
_DEFINED = re.compile(r"\]:")
"""The same where the address is written elsewhere: ``[bank]: https://...``."""


def shown(text: str) -> str:
    """Return the text without secrets and hidden characters; links that a text hides are visible."""
    text = without_hidden(text)  # first: a hidden character inside a secret would hide it from the redactor
    redactor, more = own_redactor(), len(text) - MAX_SHOWN_CHARS
    clean = redactor.whole(text) if more <= 0 else redactor.start(text, MAX_SHOWN_CHARS)
    end = f"\n\n… ({more:,} more characters are in the run.)" if more > 0 else ""
    return _MASKED.sub("] (", clean) + end


def escaped(text: str) -> str:
    """Return a text in which Slack reads no mention, no command and no link with another text."""
    return _DEFINED.sub("] :", _SPECIAL.sub("&lt;", text))


def without_remark(text: str) -> str:
    """Return an unfinished answer without its last line, if that says what the run does."""
    body, _, last = text.rpartition("\n")
    return body if last.startswith("-# ") else text


def parts_of(text: str, max_chars: int) -> list[str]:
    """Return the text in parts of at most ``max_chars`` UTF-16 units, divided between paragraphs where possible.

    A block of code that continues in the next part is closed and opened again. A part but the last one stays as it is
    while the text grows.
    """
    parts: list[str] = []
    start, fence = 0, ""
    while start < len(text):
        opening = f"{fence}\n" if fence else ""
        room = max_chars - len(opening) - len(FENCE) - 1
        end = _reach(text, start, room)
        if end < len(text):
            end = _division(text, start, end)
        piece = text[start:end].strip("\n").rstrip()
        fence = _open_fence(piece, fence)
        start = end
        if piece.strip():
            parts.append(f"{opening}{piece}\n{FENCE}" if fence and start < len(text) else f"{opening}{piece}")
    return parts


def _reach(text: str, start: int, room: int) -> int:
    """Return where ``room`` UTF-16 units from ``start`` end."""
    end = min(len(text), start + room)
    while True:
        units = end - start + sum(character > "\uffff" for character in text[start:end])
        if units <= room:
            return end
        end -= max(1, (units - room) // 2)


def _division(text: str, start: int, end: int) -> int:
    """Return where to divide before ``end``: behind a paragraph, a line, a sentence or a word, in the second half."""
    middle = start + (end - start) // 2
    for mark in ("\n\n", "\n", ". ", " "):
        at = text.rfind(mark, middle, end)
        if at > start:
            return at + len(mark)
    return end


def _open_fence(piece: str, fence: str) -> str:
    """Return the line that opened the block of code which is open at the end of a part, or nothing."""
    for line in piece.split("\n"):
        if line.lstrip(" ").startswith(FENCE):
            opened = line.strip()[:40]
            fence = "" if fence else opened if opened.count(FENCE) == 1 else ""
    return fence
