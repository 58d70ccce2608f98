"""(a) A plain Starlette endpoint that streams LiteLLM inline as server-sent events, as well as one can write it.

    python -m tests.bench.direct_app PORT MODEL_URL

Warmed by calls to itself before it listens, its heap frozen, LiteLLM's price list local, uvloop and httptools.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import orjson

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

WARM_CALLS = 5
SYSTEM_PROMPT = "You answer in numbers."


def http_parser() -> Literal["httptools", "h11"]:
    """Return what uvicorn parses HTTP with on this machine; h11 is slower."""
    return "httptools" if find_spec("httptools") else "h11"


def application(model_url: str) -> Starlette:
    """Return the endpoint: POST /stream with ``model`` and ``input``."""
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def stream(request: Request) -> StreamingResponse:
        body = orjson.loads(await request.body())
        return StreamingResponse(_frames(body["model"], body["input"], model_url), media_type="text/event-stream")

    return Starlette(routes=[Route("/stream", stream, methods=["POST"])])


async def _frames(model: str, sentence: str, model_url: str) -> AsyncIterator[bytes]:
    import litellm

    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": sentence}]
    answer: Any = await litellm.acompletion(
        model=model, messages=messages, stream=True, api_base=model_url, api_key="none"
    )
    async for chunk in answer:
        content = chunk.choices[0].delta.content
        if content:
            yield b"data: " + orjson.dumps({"content": content}) + b"\n\n"
    yield b"data: [DONE]\n\n"


async def _warm(model_url: str) -> None:
    for _ in range(WARM_CALLS):
        async for _frame in _frames("openai/bench-20-1000", "warm up", model_url):
            pass


async def serve(port: int, model_url: str) -> None:
    """Serve until stopped."""
    import uvicorn

    await _warm(model_url)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    config = uvicorn.Config(
        application(model_url),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http=http_parser(),
        log_level="warning",
        access_log=False,
        backlog=2048,
    )
    await uvicorn.Server(config).serve()


def main() -> None:
    """Serve on the port given."""
    import uvloop

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
