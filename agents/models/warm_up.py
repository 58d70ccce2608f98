"""The first model call of a process, made before anybody waits for it.

Importing LiteLLM takes two seconds and its first call half a second more of one core, which a user would
see as the time to the first token. So a worker makes that call while it starts: to itself, on loopback.
"""

from __future__ import annotations

import asyncio
import logging

from bus.loop import ProcessLoop
from config.errors import CallboardError

log = logging.getLogger(__name__)

_CHUNK = (
    b'data: {"id":"warm","object":"chat.completion.chunk","created":1,"model":"warm-up","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"warm"},"finish_reason":null}]}\n\n'
    b'data: {"id":"warm","object":"chat.completion.chunk","created":1,"model":"warm-up","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,'
    b'"total_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    b"Content-Length: " + str(len(_CHUNK)).encode() + b"\r\n\r\n" + _CHUNK
)
_CALLS = 3
"""The first one pays nearly everything; two more exercise what is set up lazily behind it."""


def warm_up(loop: ProcessLoop) -> None:
    """Import LiteLLM and make a few calls on the loop; what fails here fails later with a better message."""
    from agents.models.lite import litellm_module

    litellm_module()
    try:
        loop.run(_call_ourselves(), timeout_s=30)
    except (CallboardError, OSError, TimeoutError) as wrong:
        log.warning("warm-up was cut short: %s", wrong)


def warm_up_to_fork() -> None:
    """Make those calls on a loop that is gone afterwards, with its threads and connections: children inherit the rest.

    A child's own first calls take hundredths of a second then, instead of seconds of a busy core.
    """
    from agents.models.lite import litellm_module

    litellm = litellm_module()

    async def call() -> None:
        await _call_ourselves()
        await litellm.close_litellm_async_clients()

    try:
        asyncio.run(call())
    except (CallboardError, OSError, TimeoutError) as wrong:
        log.warning("warm-up was cut short: %s", wrong)
    litellm.in_memory_llm_clients_cache.flush_cache()


async def _call_ourselves() -> None:
    from agents.models.call import ModelCall
    from agents.models.open import open_stream
    from agents.streaming import StreamedResponseWrapper

    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        call = ModelCall(
            model="openai/gpt-5-mini", messages=[{"role": "user", "content": "warm-up"}], tools=[_TOOL],
            api_base=f"http://127.0.0.1:{port}/v1",
        )  # fmt: skip
        for _ in range(_CALLS):
            async with StreamedResponseWrapper(await open_stream(call)) as stream:
                async for _batch in stream:
                    pass


_TOOL = {
    "type": "function",
    "function": {"name": "warm_up", "description": "", "parameters": {"type": "object", "properties": {}}},
}


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    await reader.readexactly(length)
    writer.write(_ANSWER)
    await writer.drain()
    writer.close()
