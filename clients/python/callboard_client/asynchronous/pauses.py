"""What waits on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx


async def pause(seconds: float) -> None:
    """Wait."""
    await asyncio.sleep(seconds)


@asynccontextmanager
async def closed_after(response: httpx.Response, seconds: float | None) -> AsyncIterator[None]:
    """End the response's stream after so many seconds, as a lost connection would."""
    if seconds is None:
        yield
        return
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise httpx.ReadTimeout("the time is over", request=response.request) from error
