"""Werkzeug reads a rule and compiles its builder once a test process: each test makes its own app of seventy routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from flask import Flask
from werkzeug.routing import BaseConverter, Rule
from werkzeug.routing.rules import RulePart

Builder = Callable[..., tuple[str, str]]
_compiled: dict[tuple[Any, ...], Builder] = {}
_parsed: dict[tuple[Any, ...], tuple[tuple[RulePart, ...], tuple[tuple[bool, str], ...], dict[str, BaseConverter]]] = {}


class SharingRule(Rule):
    """A rule that takes parts, converters and builder of an equal one.

    A builder finds the converters on the rule it is bound to, so it holds nothing of the app that it was compiled for.
    Werkzeug's converters keep the map of the first app and do not ask it for anything.
    """

    def _parse_rule(self, rule: str) -> Iterable[RulePart]:
        assert self.map is not None
        key = (rule, *self.map.converters.items())
        if key not in _parsed:
            before = len(self._trace)
            parts = tuple(super()._parse_rule(rule))
            _parsed[key] = (parts, tuple(self._trace[before:]), dict(self._converters))
            return parts
        parts, trace, converters = _parsed[key]
        self._trace.extend(trace)
        self._converters.update(converters)
        self.arguments.update(converters)
        return parts

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
