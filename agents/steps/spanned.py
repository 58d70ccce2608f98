"""Keeps the HTTP requests, statements and file operations of a step's call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agents.context import RunContext
from agents.tools.spans.collector import collecting
from config.redacted_data import cleaned_data


@contextmanager
def spanned(context: RunContext, keep: Callable[[list[Mapping[str, Any]]], None]) -> Iterator[None]:
    """Give ``keep`` the spans of the body, if there are any, also if it fails; what guardrails replace is replaced.

    Where the settings say so, nothing is kept.
    """
    if not context.settings.spans:
        yield
        return
    with collecting() as collector:
        try:
            yield
        finally:
            found = collector.close()
            if found:
                keep(cleaned_data(context.guardrails.scan, found, []))
