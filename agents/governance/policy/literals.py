"""Texts within an expression of CEL, apart from what surrounds them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """An expression and its texts."""

    bare: str
    """The expression with an empty text ('') in place of each one."""
    patterns: tuple[str, ...]
    """The texts that are given to ``matches``, as they are written."""


def split_texts(source: str) -> Split:
    """Return the expression without its texts; one that is not closed reaches to the end."""
    bare: list[str] = []
    patterns: list[str] = []
    at = 0
    while at < len(source):
        if source[at] not in "'\"":
            bare.append(source[at])
            at += 1
            continue
        raw = "".join(bare[-2:]).lower().rstrip().endswith("r") and _is_prefix(bare)
        end = _end_of(source, at, is_raw=raw)
        before = "".join(bare[-24:]).rstrip("rRbB").rstrip()
        if before.endswith("(") and before[:-1].rstrip().endswith("matches"):
            patterns.append(("r" if raw else "") + source[at:end])
        bare.append("''")
        at = end
    return Split("".join(bare), tuple(patterns))


def _is_prefix(bare: list[str]) -> bool:
    """Return whether the letters before a quote are the text's prefix, and not the end of a name."""
    before = "".join(bare[-4:]).rstrip("rRbB")
    return not before[-1:].isalnum() and not before.endswith("_")


def _end_of(source: str, begin: int, *, is_raw: bool) -> int:
    quote = source[begin] * 3 if source.startswith(source[begin] * 3, begin) else source[begin]
    at = begin + len(quote)
    while at < len(source):
        if source[at] == "\\" and not is_raw:
            at += 2
        elif source.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return len(source)
