"""Werkzeug's builders of addresses are compiled once a test process: each test makes its own app of seventy routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.routing import Rule

Builder = Callable[..., tuple[str, str]]
_compiled: dict[tuple[Any, ...], Builder] = {}


class SharingRule(Rule):
    """A rule that takes the builder of an equal one.

    A builder finds the converters on the rule it is bound to, so it holds nothing of the app that it was compiled for.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Builder:
        if self.defaults:  # their values are part of the builder
            return super()._compile_builder(append_unknown)
        key = (*self._trace, append_unknown)
        if key not in _compiled:
            _compiled[key] = super()._compile_builder(append_unknown)
        return _compiled[key]


def share_builders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have new apps use one set of compiled builders from now on."""
    monkeypatch.setattr(Flask, "url_rule_class", SharingRule)
