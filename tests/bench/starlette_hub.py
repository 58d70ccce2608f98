"""What Callboard's feed is measured beside: a plain Starlette endpoint, one Redis subscription, a queue a viewer."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import redis.asyncio as redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

queues: set[asyncio.Queue[bytes]] = set()


async def relay() -> None:
    """Put each published frame into every viewer's queue."""
    client = redis.from_url(os.environ["BENCH_REDIS"], socket_timeout=None)
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("bench")
        async for message in pubsub.listen():
            if message["type"] == "message":
                for queue in queues:
                    queue.put_nowait(message["data"])


async def stream(_request: Request) -> StreamingResponse:
    async def frames() -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        queues.add(queue)
        try:
            yield b"retry: 2000\n"
            while True:
                yield await queue.get()
        finally:
            queues.discard(queue)

    return StreamingResponse(frames(), media_type="text/event-stream")


@contextlib.asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    task = asyncio.create_task(relay())
    yield
    task.cancel()


app = Starlette(routes=[Route("/stream", stream)], lifespan=lifespan)
