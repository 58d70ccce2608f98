"""Connections to Postgres with a deadline for every wait."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from config.database.timeouts import deadline_s

T = TypeVar("T")
CONNECT_S = 3
LEAST_CONNECT_S = 2
"""psycopg's shortest limit."""
_DATA_EXCEPTION = "22"
"""The class of such errors. https://www.postgresql.org/docs/current/errcodes-appendix.html"""


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; the connection is closed, and the outcome of a commit is unknown."""


class PatientConnection(psycopg.Connection[Any]):
    """A connection whose waits end at the thread's deadline (``config/database/timeouts.py``)."""

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Return the result of ``gen``; what the server says of an error keeps no values of rows and parameters.

        Raises:
            NoAnswer: the server did not answer in time.
        """
        try:
            return super().wait(_until(gen, deadline_s()), *args, **kwargs)
        except NoAnswer:
            self.close()  # a late answer must not be taken for the next statement's
            raise
        except psycopg.Error as error:
            error.args = (_without_values(error),)
            raise


def connect(*args: Any, **kwargs: Any) -> PatientConnection:
    """Return a new connection.

    Raises:
        NoAnswer: the thread's deadline is too near.
        psycopg.OperationalError: the server refused, or did not answer in time.
    """
    left_s = deadline_s() - time.monotonic()
    if left_s < LEAST_CONNECT_S:
        raise NoAnswer("no time is left to reconnect")
    kwargs["connect_timeout"] = int(min(CONNECT_S, left_s))
    return PatientConnection.connect(*args, **kwargs)


def _without_values(error: psycopg.Error) -> str:
    """Return the message without DETAIL, CONTEXT and HINT, which quote rows and parameters.

    Errors of class 22 quote the value in the message itself: ``invalid input syntax for type integer: "…"``.
    """
    primary = error.diag.message_primary
    if primary is None:
        return str(error)  # of the connection, not of a statement
    first, last = primary.find('"'), primary.rfind('"')  # a value may hold quotation marks itself
    if first < last and (error.sqlstate or "").startswith(_DATA_EXCEPTION):
        return f'{primary[:first]}"…"{primary[last + 1 :]}'
    return primary


def _until(gen: PQGen[T], until_s: float) -> PQGen[T]:
    """Delegate to ``gen`` until the deadline; psycopg sends a false value every 0.1 s while nothing is ready."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() > until_s:
                raise NoAnswer("it did not answer in time")
            state = gen.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result
