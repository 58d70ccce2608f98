"""Requests and streams on httpx, tried again where that is of use."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx
from httpx_sse import EventSource

from callboard_client.address import Address
from callboard_client.answers import is_gone, require_stream, require_success, result_of, unanswered
from callboard_client.asynchronous.pauses import closed_after, pause
from callboard_client.calls import Call, follow_run
from callboard_client.errors import CallboardError, Unreachable
from callboard_client.events import EndEvent, Event
from callboard_client.following import Place
from callboard_client.retrying import Patience, Timeouts
from callboard_client.trust import trusted

T = TypeVar("T")
UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""Each run that is followed has a connection of its own."""


class AsyncTransport:
    """Sends calls, and follows runs."""

    def __init__(self, address: Address, timeouts: Timeouts, http_client: httpx.AsyncClient | None) -> None:
        self._address = address
        self._timeouts = timeouts
        self._given = http_client
        self._own: httpx.AsyncClient | None = None
        self._pid = os.getpid()

    def _http(self) -> httpx.AsyncClient:
        """Return the caller's client, or one of this process's own: a forked child must not use its parent's."""
        if self._given is not None:
            return self._given
        if self._own is None or self._pid != os.getpid():
            self._own, self._pid = httpx.AsyncClient(verify=trusted(), limits=UNLIMITED), os.getpid()
        return self._own

    async def send(self, call: Call[T]) -> T:
        """Return the result of a call, which is repeated as long as that is safe and may succeed.

        Raises:
            RequestRefused, Unreachable, UnexpectedAnswer: it has none.
        """
        patience, may_have_arrived = Patience(self._timeouts.retry_s), False
        while True:
            try:
                return await self._send_once(call)
            except CallboardError as error:
                if may_have_arrived and is_gone(call, error):
                    return call.read(None)  # an earlier attempt deleted it, and its answer was lost
                may_have_arrived |= error.may_have_arrived
                if error.may_have_arrived and not call.is_repeatable:
                    raise
                pause_s = patience.pause_s(error)
            await pause(pause_s)

    async def _send_once(self, call: Call[T]) -> T:
        try:
            response = await self._http().request(**self._address.request(call, self._timeouts.of_request()))
        except httpx.RequestError as error:
            raise unanswered(error, self._address.text) from error
        return result_of(call, response, self._address.text)

    async def follow(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> AsyncGenerator[Event]:
        """Yield a run's events behind a number up to its end; a lost connection is resumed behind the last event.

        Raises:
            RequestRefused, UnexpectedAnswer: the server refuses the stream for good.
            Unreachable: it was not reached for as long as the timeouts say.
            TimeoutError: the run did not end within ``timeout_s``.
        """
        position, patience = Place(after), Patience(self._timeouts.retry_s)
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            error: CallboardError = Unreachable(self._address.text, "the stream ended before the run did")
            seen = position.after
            try:
                async with self._stream(follow_run(run_id, position.after), _left(until, run_id)) as response:
                    if response.status_code == httpx.codes.NO_CONTENT:
                        return  # the last event of an ended run was taken before
                    patience.extend(self._timeouts.resume_s)
                    async for block in EventSource(response).aiter_sse():
                        event = position.take(block)
                        if event is not None:
                            yield event
                        if isinstance(event, EndEvent):
                            return
            except httpx.RequestError as lost:
                error = unanswered(lost, self._address.text)
            except CallboardError as refused:
                error = refused
            _left(until, run_id)
            if position.after > seen:
                patience.progressed()
                continue  # at once: most likely the connection alone was lost
            pause_s = patience.pause_s(error)
            await pause(pause_s if until is None else min(pause_s, _left(until, run_id) or 0.0))

    @asynccontextmanager
    async def _stream(self, call: Call[None], most_s: float | None) -> AsyncIterator[httpx.Response]:
        """Open a stream; what is yielded is a stream of events, or the answer that there is none."""
        arguments = self._address.request(call, self._timeouts.of_stream(most_s))
        async with self._http().stream(**arguments) as response, closed_after(response, most_s):
            if not response.is_success:
                await response.aread()
            require_success(response, self._address.text)
            if response.status_code != httpx.codes.NO_CONTENT:
                require_stream(response, self._address.text)
            yield response

    async def close(self) -> None:
        """Close the connections, unless the caller gave the client that has them."""
        if self._own is not None and self._pid == os.getpid():
            await self._own.aclose()
        self._own = None


def _left(until: float | None, run_id: str) -> float | None:
    """Return the seconds that are left.

    Raises:
        TimeoutError: there are none.
    """
    if until is None:
        return None
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError(f"run {run_id} did not end in time; it continues.")
    return left_s
