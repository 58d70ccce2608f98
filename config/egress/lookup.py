"""Looks names up on threads of their own, so many at once for each tenant.

A name server that does not answer holds a thread for half a minute, whatever gave up waiting for it. The loop's own
look-ups, of which a model's provider needs some, share four threads; a model chooses names, so its look-ups get others.
"""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any
from weakref import WeakKeyDictionary

LOOKUP_S = 5.0
"""Seconds that a name may take to be looked up, with the wait for a thread."""
MOST_AT_ONCE = 8
"""Look-ups at once of one tenant, those counted whose caller has given up."""

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, as text. Raises OSError, or UnicodeError, where there are none."""
Limits = MutableMapping[str, asyncio.Semaphore]

_limits: WeakKeyDictionary[asyncio.AbstractEventLoop, Limits] = WeakKeyDictionary()


def resolver_of(whose: str) -> Resolver:
    """Return what looks names up as this machine does, within the limit of ``whose`` look-ups."""

    async def look_up(host: str, port: int) -> Sequence[str]:
        return await _look_up(whose, host, port)

    return look_up


async def _look_up(whose: str, host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    limit = _limits.setdefault(loop, defaultdict(lambda: asyncio.Semaphore(MOST_AT_ONCE)))[whose]
    async with asyncio.timeout(LOOKUP_S):
        await limit.acquire()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def ended(addresses: Sequence[str], error: Exception | None) -> None:
            limit.release()
            if answer.done():  # its caller has given up
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

        try:
            Thread(target=_ask, args=(loop, host, port, ended), name="callboard-lookup", daemon=True).start()
        except RuntimeError as error:  # the machine has no thread left
            limit.release()
            raise OSError("there is no thread for a look-up") from error
        return await answer


def _ask(loop: asyncio.AbstractEventLoop, host: str, port: int, ended: Callable[..., Any]) -> None:
    addresses: list[str] = []
    problem: Exception | None = None
    try:
        addresses = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except Exception as error:
        problem = error
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(ended, addresses, problem)


resolve = resolver_of("other")
"""For callers that say nothing of whose name it is."""
