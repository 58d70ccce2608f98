"""The first model call of a process, made before anybody waits for it.

Importing LiteLLM takes three seconds and its first call half a second more of one core, which a user would
see as the time to the first token. So a worker makes that call while it starts: to itself, on loopback. Where no
agent needs LiteLLM, a worker takes runs at once and warms up behind them, one process of a machine at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agents.models.auto import resolve_model
from agents.models.demo import is_demo
from agents.registry import AgentRegistry
from bus.heap import settle_heap
from bus.loop import ProcessLoop
from config.errors import CallboardError
from config.private_files import open_private

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


def needs_litellm(registry: AgentRegistry, environment: Mapping[str, str]) -> bool:
    """Return whether an agent of this installation asks another model than the demo's; broken ones ask none."""
    models = []
    for agent_id in registry.ids():
        try:
            models.append(registry.get(agent_id).model)
        except CallboardError:
            continue
    return any(not is_demo(resolve_model(model, environment)) for model in models)


def warm_up_later(loop: ProcessLoop, folder: Path) -> None:
    """Warm up on a thread of its own, while runs that need no LiteLLM are worked on.

    ``folder`` is the machine's state folder, where the processes take turns. A run that needs LiteLLM earlier does not
    wait for the turn: it imports LiteLLM itself.
    """

    def work() -> None:
        try:
            with _turn(folder):
                warm_up(loop)
                settle_heap()
        except Exception:  # the first run that needs LiteLLM says what is wrong, with its run's id
            log.exception("warm-up failed")

    threading.Thread(target=work, name="warm-up", daemon=True).start()


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Hold the turn of this machine; the kernel gives it to the next process when this one ends."""
    try:
        import fcntl
    except ImportError:  # Windows: all at once
        yield
        return
    descriptor = open_private(folder / "warm-up.lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
