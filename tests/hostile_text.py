"""Texts that make careless parsers slow: each shape is a unit repeated, or built, to any length."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

_UNITS = {
    "newlines": "\n",
    "blanks": " ",
    "tabs": "\t",
    "returns": "\r\n",
    "brackets": "[",
    "closing": "]",
    "braces": '{"a":',
    "pairs": "[]",
    "backticks": "`",
    "fences": "```\n",
    "json fences": "```json\n",
    "quotes": '"',
    "single quotes": "'",
    "backslashes": "\\",
    "escapes": '\\"',
    "letters": "a",
    "digits": "1",
    "dashes": "-",
    "dots": ".",
    "colons": ":",
    "commas": ", ",
    "ands": " and ",
    "stars": "*",
    "slashes": "/",
    "ats": "@",
    "equals": "=",
    "percents": "1 % ",
    "keys": "sk-",
    "key tails": "-sk-",
    "tokens": "-eyJ",
    "token parts": "eyJaaaaaaaaa.",
    "addresses": "://",
    "passwords": "://a:b",
    "at passwords": "://a:@",
    "bearers": "bearer ",
    "named": "password=",
    "named blanks": "api_key  ",
    "pem": "-----BEGIN PRIVATE KEY-----",
    "pem ends": "-----BEGIN ",
    "akia": "AKIA",
    "base64": "c2st",
    "aws": "aws_secret",
    "escape codes": "\x1b[31m",
    "bidi": "\u202e",
    "emoji": "\U0001f600",
    "accents": "e\u0301",
    "surrogates": "\ud800",
    "nul": "\x00",
    "tags": "<a ",
    "titles": "<title>",
    "events": "data: {}\n\n",
    "fields": "data:\n",
    "sums": "1+",
    "words": "What is 1 + 1? ",
    "names": "Ada Lovelace, ",
    "dates": "2026-11-21 ",
    "parens": "(",
    "yaml": "- - ",
}


def _duplicates(size: int) -> str:
    return "{" + ",".join(['"a":1'] * (size // 6)) + "}"


def _many_names(size: int) -> str:
    return "{" + ",".join(f'"{number}":1' for number in range(size // 10)) + "}"


def _late_duplicate(size: int) -> str:
    return "{" + ",".join(f'"{number}":1' for number in range(size // 10)) + ',"0":1}'


def _numbers(size: int) -> str:
    return "[" + ",".join(["1"] * (size // 2)) + "]"


def _inside(unit: str) -> Callable[[int], str]:
    return lambda size: '{"a": "' + unit * (size // len(unit)) + '"}'


def _repeated(unit: str) -> Callable[[int], str]:
    return lambda size: unit * (size // len(unit))


SHAPES: Mapping[str, Callable[[int], str]] = {
    **{name: _repeated(unit) for name, unit in _UNITS.items()},
    "duplicate names": _duplicates,
    "many names": _many_names,
    "a late duplicate": _late_duplicate,
    "many numbers": _numbers,
    "text of letters": _inside("a"),
    "text of brackets": _inside("["),
    "a fence never closed": lambda size: "```json\n" + "\n" * size,
    "a long name": lambda size: '{"' + "a" * size + '": 1}',
}
"""Shape by name; called with a number of characters."""


def cpu_s(function: Callable[[str], object], text: str) -> float:
    """Return the CPU seconds of this thread that the function takes for a text, which it may refuse."""
    begun = time.thread_time()
    try:
        function(text)
    except (NameError, AttributeError):  # the table itself is wrong
        raise
    except Exception:  # hostile text is refused with all kinds of sentences; how soon is what counts
        pass
    return time.thread_time() - begun
