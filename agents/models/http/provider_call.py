"""Marks the requests that belong to a provider's call: those made inside ``provider_call()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_on: ContextVar[bool] = ContextVar("callboard_provider_call", default=False)


@contextmanager
def provider_call() -> Iterator[None]:
    """Mark the requests of this task, and of the tasks that it starts, as part of a provider's call."""
    token = _is_on.set(True)
    try:
        yield
    finally:
        _is_on.reset(token)


def in_provider_call() -> bool:
    """Return whether a request made now belongs to a provider's call."""
    return _is_on.get()
