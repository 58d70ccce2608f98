"""Opens a model's stream through LiteLLM, which chooses the provider, the address, the key and the parameters' names.

A call of a shipped model does not import LiteLLM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from agents.models.abilities import has_schema_mode
from agents.models.call import ModelCall, in_provider_call, is_in_process, provider_call
from agents.models.errors import MODEL_REFUSED, MODEL_UNKNOWN
from agents.models.failures import failure_of, require_key, too_slow
from agents.models.lite import is_imported, litellm_module
from agents.models.streams.fast import fast_reader, sends_no_thinking_blocks
from agents.models.streams.reader import ChunkReader
from agents.models.streams.wrapper import WrapperReader
from config.definitions.model_fields import OURS
from config.redaction import register_secrets

_NO_KEY = "none"
"""The key sent to an ``api_base`` without ``api_key_env``: the client requires one, and no real key may be sent."""
_UNGUARDED = "aiohttp_openai/"
"""LiteLLM's route that does not use httpx, so that ``agents.models.http`` cannot limit it."""
_IGNORED = frozenset({*OURS, "callbacks"})
"""Parameters that an agent's ``params`` cannot set: they would add a second retry layer, log or timeout."""
MAX_MESSAGES, MAX_TOOLS, MAX_CHARACTERS = 64, 16, 200_000
"""A call with more of one of them is prepared on a thread, so that the loop stays responsive."""
FAMILIES = ("openai/", "anthropic/", "hosted_vllm/")
"""Providers whose preparation makes no request; others may fetch a token or a list of models first."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStream:
    """An opened stream; ``StreamedResponseWrapper`` reads it."""

    call: ModelCall
    reader: ChunkReader
    started_at: float
    """The loop's time when the call began; the timeouts count from here."""


async def open_stream(call: ModelCall) -> ModelStream:
    """Return the stream of ``call``: the provider has answered with 200, and nothing is read yet.

    Raises:
        ModelKeyMissing, MODEL_UNKNOWN, MODEL_REFUSED: the agent or the environment has to be changed.
        ModelFailed, MODEL_TIMEOUT: a retry may succeed.
    """
    started = asyncio.get_running_loop().time()
    patience = min(call.timeouts.first_token_s, call.timeouts.total_s)
    try:
        async with asyncio.timeout_at(started + patience):
            reader = await (open_in_process if is_in_process(call.model) else _open_by_litellm)(call)
    except TimeoutError as late:
        raise too_slow("first_token_s" if patience < call.timeouts.total_s else "total_s", call) from late
    return ModelStream(call=call, reader=reader, started_at=started)


async def open_in_process(call: ModelCall) -> ChunkReader:
    """Return the answer to ``call`` of a model that ships."""
    if call.model.partition("/")[0] == "demo":
        from agents.models.demo.reader import DemoReader

        return DemoReader(call)
    from agents.models.scripted import open_script

    return await open_script(call)


async def _open_by_litellm(call: ModelCall) -> ChunkReader:
    litellm = litellm_module() if is_imported() else await asyncio.to_thread(litellm_module)  # of a fallback
    if call.model.startswith(_UNGUARDED):
        name = call.model.removeprefix(_UNGUARDED)
        raise MODEL_UNKNOWN(
            f"model '{call.model}' takes a route that follows redirects; write it as openai/{name}.", model=call.model
        )
    require_key(call)
    prepare_on_loop()
    try:
        with provider_call():
            opened = await litellm.acompletion(**arguments_of(call))
            await _send(opened, litellm)
    except TimeoutError:  # also one of LiteLLM's own
        raise
    except Exception as error:
        raise failure_of(error, call) from error
    if opened is None:  # LiteLLM drops parameters after a 422, and then gives up silently
        raise MODEL_REFUSED(
            f"the provider of '{call.model}' refused the request (HTTP 422), also without the parameters it named; "
            "change the agent's params.",
            model=call.model,
            provider_status=422,
        )
    return fast_reader(opened, call) or WrapperReader(opened, call)


async def _send(stream_wrapper: Any, litellm: Any) -> None:
    """Send the request of a stream whose request LiteLLM sends at the first read only, such as Gemini's."""
    is_open = getattr(stream_wrapper, "completion_stream", None) is not None
    if is_open or getattr(stream_wrapper, "make_call", None) is None:
        return
    try:
        await stream_wrapper.fetch_stream()
    except Exception as error:  # as LiteLLM would raise it from the first read
        provider = stream_wrapper.custom_llm_provider
        raise litellm.exception_type(stream_wrapper.model, error, custom_llm_provider=provider) from error


def arguments_of(call: ModelCall) -> dict[str, Any]:
    """Return LiteLLM's arguments; the key is registered as a secret for redaction.

    The timeouts limit connecting only, and ``StreamTimer`` limits reading: a read timeout in the client would start and
    cancel a timer for each chunk.
    """
    import httpx

    register_secrets(filter(None, [call.api_key]))
    connect_s = call.timeouts.connect_s
    ours = {
        "model": call.model,
        "messages": _messages_for(call),
        "stream": True,
        "stream_options": {"include_usage": True},
        # `pool` limits the DNS lookup too, since aiohttp applies `connect` only after the lookup
        "timeout": httpx.Timeout(connect=connect_s, read=None, write=call.timeouts.first_token_s, pool=connect_s),
        "max_retries": 0,
        "num_retries": 0,
        "drop_params": True,
        "tools": list(call.tools) if call.tools else None,
        "tool_choice": call.tool_choice if call.tools else None,
        "response_format": _response_format(call),
        "api_base": call.api_base,
        "api_key": call.api_key or (_NO_KEY if call.api_base and not call.api_key_env else None),
    }
    params = {key: value for key, value in call.params.items() if key not in _IGNORED}
    return params | {key: value for key, value in ours.items() if value is not None}


def _response_format(call: ModelCall) -> Any:
    """Return the format of the answer; of a provider without a schema mode a JSON object, since it refuses the schema.

    The schema stands in the system prompt as well, and the answer is checked against it in any case.
    """
    answer_format = call.response_format
    if (
        answer_format is None
        or answer_format.get("type") != "json_schema"
        or has_schema_mode(call.model, call.api_base)
    ):
        return answer_format
    return {"type": "json_object"}


def _messages_for(call: ModelCall) -> list[Mapping[str, Any]]:
    """Return the messages without the signed thinking of another provider's model, which strict servers refuse."""
    if not sends_no_thinking_blocks(call.model):
        return list(call.messages)
    return [
        {name: value for name, value in message.items() if name != "thinking_blocks"}
        if "thinking_blocks" in message
        else message
        for message in call.messages
    ]


class PreparationExecutor(ThreadPoolExecutor):
    """A thread pool that calls LiteLLM's preparation of a short model call at once, on the calling thread.

    ``acompletion`` runs ``completion`` on the loop's default executor; it builds the request and returns a coroutine.
    Both changes of thread wait for the interpreter's lock, while other threads of the worker are busy.
    """

    prepared = 0
    """How many calls were prepared on the calling thread."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not (in_provider_call() and is_short_preparation(function)):
            return super().submit(function, *args, **kwargs)
        future: Future[T] = Future()
        self.prepared += 1
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # as a thread of the pool would pass it on
            future.set_exception(error)
        return future


def is_short_preparation(function: Callable[..., Any]) -> bool:
    """Return whether this is LiteLLM's ``completion`` in its context, for a short call of a provider we know."""
    inner = function.args[0] if isinstance(function, partial) and function.args else None
    if not isinstance(inner, partial) or getattr(inner.func, "__name__", "") != "completion":
        return False
    keywords = inner.keywords
    return (
        str(keywords.get("model")).startswith(FAMILIES)
        and len(keywords.get("messages") or ()) <= MAX_MESSAGES
        and len(keywords.get("tools") or ()) <= MAX_TOOLS
        and _characters(keywords.get("messages")) + _characters(keywords.get("tools")) <= MAX_CHARACTERS
    )


def _characters(value: Any) -> int:
    """Return how many characters the texts in this JSON value have."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_characters, parts))


_executors: WeakKeyDictionary[asyncio.AbstractEventLoop, PreparationExecutor] = WeakKeyDictionary()


def prepare_on_loop() -> PreparationExecutor:
    """Make the running loop's default executor one that prepares short calls at once, and return it; once a loop."""
    loop = asyncio.get_running_loop()
    executor = _executors.get(loop)
    if executor is None:
        executor = _executors[loop] = PreparationExecutor(thread_name_prefix="callboard-default")
        loop.set_default_executor(executor)
    return executor
