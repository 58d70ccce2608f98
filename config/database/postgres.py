"""Connections to Postgres that stop waiting in time."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from config.patience import deadline_s

T = TypeVar("T")
CONNECT_S = 3
LEAST_CONNECT_S = 2
"""psycopg takes no shorter limit."""


class NoAnswer(psycopg.OperationalError):
    """The server said nothing for too long; the connection is closed, and what became of a commit is not known."""


class PatientConnection(psycopg.Connection[Any]):
    """A connection whose every wait ends when its thread's patience does (``config/patience.py``)."""

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Return what ``gen`` returns.

        Raises:
            NoAnswer: the server did not answer in time.
        """
        try:
            return super().wait(_until(gen, deadline_s()), *args, **kwargs)
        except NoAnswer:
            self.close()  # an answer that comes later must not be taken for the next statement's
            raise


def connect(*args: Any, **kwargs: Any) -> PatientConnection:
    """Return a new connection.

    Raises:
        NoAnswer: this thread has no time left.
        psycopg.OperationalError: the server refused, or did not answer in time.
    """
    left_s = deadline_s() - time.monotonic()
    if left_s < LEAST_CONNECT_S:
        raise NoAnswer("no time is left to connect again")
    kwargs["connect_timeout"] = int(min(CONNECT_S, left_s))
    return PatientConnection.connect(*args, **kwargs)


def _until(gen: PQGen[T], until_s: float) -> PQGen[T]:
    """Do what ``gen`` does; psycopg sends a false value when nothing was ready for a tenth of a second."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() > until_s:
                raise NoAnswer("it said nothing for too long")
            state = gen.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result
