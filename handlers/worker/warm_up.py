"""Warms LiteLLM up: a worker makes its first model calls while it starts, to a server of its own on loopback.

Importing LiteLLM takes 3 s of one core, and its first call another 0.5 s, which would delay the first token. A worker
takes runs meanwhile, and those that need LiteLLM wait for its import. Where no agent needs it, processes warm up one
at a time per machine.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from agents.models.auto import resolve_model
from agents.models.call import ModelCall, is_in_process
from agents.models.errors import ReleaseRefused
from agents.models.lite import litellm_module
from agents.models.open import open_stream
from agents.registry import AgentRegistry
from agents.steps.streaming import StreamedResponseWrapper
from bus.gc_tuning import freeze_gc
from bus.loop import ProcessLoop
from config.errors import CallboardError
from config.private_files import open_private

log = logging.getLogger(__name__)

_CHUNK = (
    b'data: {"id":"warm","object":"chat.completion.chunk","created":1,"model":"warm-up","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"warm"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\ndata: [DONE]\n\n'
)
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    b"Content-Length: " + str(len(_CHUNK)).encode() + b"\r\n\r\n" + _CHUNK
)
_TOOL = {
    "type": "function",
    "function": {"name": "warm_up", "description": "", "parameters": {"type": "object", "properties": {}}},
}
_CALLS = 3
"""The first call takes nearly all of the time; two more initialise what is set up lazily."""

TURN_FILE = "warm-up.lock"
"""The lock file in the state folder by which processes warm up one at a time."""


def warm_up(loop: ProcessLoop) -> None:
    """Import LiteLLM and make a few calls on the loop; errors are logged, and the first run reports them again.

    Raises:
        ReleaseRefused: the installed release is malicious.
    """
    _warm_up(lambda: loop.run(_call_ourselves(), timeout_s=30))


def warm_up_to_fork() -> None:
    """Warm up before a fork, on a temporary loop, so that children inherit the imports but no threads or connections.

    A child's first calls then take hundredths of a second instead of seconds. Raises what ``warm_up`` raises.
    """

    async def call() -> None:
        try:
            await _call_ourselves()
        finally:
            await litellm_module().close_litellm_async_clients()
            litellm_module().in_memory_llm_clients_cache.flush_cache()

    _warm_up(lambda: asyncio.run(call()))


def _warm_up(call: Callable[[], None]) -> None:
    try:
        litellm_module()
        call()
    except ReleaseRefused:
        raise
    except (CallboardError, OSError, TimeoutError) as error:
        log.warning("warm-up was cut short: %s", error)


def needs_litellm(registry: AgentRegistry, environment: Mapping[str, str]) -> bool:
    """Return whether a valid agent of this installation has a model that needs LiteLLM.

    Agents that are not listed do not count, as the one that ships for channels: their first run imports it.
    """
    usable = [agent for agent in registry.usable() if agent.listed]
    models = [resolve_model(agent.model, environment) for agent in usable]
    models += [fallback.model for agent in usable for fallback in agent.fallbacks]
    return not all(map(is_in_process, models))


def warm_up_later(loop: ProcessLoop, turn: Path | None) -> None:
    """Warm up on a thread of its own, while the worker executes runs that do not need LiteLLM.

    ``turn`` is the state folder with the lock file by which processes warm up one at a time; None does not wait. A run
    that needs LiteLLM earlier imports it without the lock, or waits for the import that is under way.
    """

    def work() -> None:
        began = time.monotonic()
        try:
            with nullcontext() if turn is None else os.fdopen(open_private(turn / TURN_FILE)) as file:
                if file is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)  # the kernel releases it when this process ends
                warm_up(loop)
                freeze_gc()
            log.info("worker is warm after_s=%.1f", time.monotonic() - began)
        except Exception:  # the first run that needs LiteLLM says what is wrong, with its run's id
            log.exception("warm-up failed")

    threading.Thread(target=work, name="warm-up", daemon=True).start()


async def _call_ourselves() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        prompt = [{"role": "user", "content": "warm-up"}]
        call = ModelCall(model="openai/gpt-5-mini", messages=prompt, tools=[_TOOL], api_base=base)
        for _ in range(_CALLS):
            async with StreamedResponseWrapper(await open_stream(call)) as stream:
                async for _batch in stream:
                    pass


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.read(65_536)  # the body, of a few hundred bytes
    writer.write(_ANSWER)
    await writer.drain()
    writer.close()
