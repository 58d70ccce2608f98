"""What a definition may name by mistake or by malice: objects that are no tools, each in its own way."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock


class _Explodes:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RecursionError("no end")

    def __call__(self) -> None: ...


def odd(number: Exploding) -> str:  # type: ignore[name-defined]  # noqa: F821 - that is the point
    """Take a type that is not there."""
    return ""


def endless(value: Endless) -> str:
    """Take a type that refers to itself for ever."""
    return ""


class Endless(list["Endless"]):
    """A list of itself."""


smallest = min
exploding = _Explodes()
mock = MagicMock()
kind = type
nothing = None
KINDS = ("smallest", "exploding", "mock", "kind", "nothing", "odd", "endless", "missing")
