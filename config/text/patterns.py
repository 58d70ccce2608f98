"""Patterns of users, matched by RE2 in time linear in the text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from config.forks import after_fork

MAX_MEMORY = 32 * 1024 * 1024
"""Bytes that RE2 may use for one pattern; beyond it becomes slower, and stays linear."""


class PatternRefused(ValueError):
    """A pattern is none that can be used; the text says why, as a part of a sentence."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Return a pattern compiled by RE2, which searches in bytes, or in a text without lone surrogates.

    Raises:
        PatternRefused: RE2 cannot match it.
    """
    import re2  # where no agent has a pattern and no model is asked, it is not needed

    options = re2.Options()
    options.log_errors, options.max_mem = False, MAX_MEMORY
    try:
        return re2.compile(pattern.encode(), options)
    except UnicodeEncodeError as error:
        raise PatternRefused("it has half a character (a lone surrogate)") from error
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise PatternRefused(f"RE2, which matches in linear time, does not take it ({reason})") from error


@after_fork
def _renew() -> None:
    compiled.cache_clear()  # a lock of RE2 may have been held by a thread of the parent


def whole(text: str) -> str:
    """Return a text of the same length with ``?`` for each lone surrogate, which RE2 does not take."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
