"""Opens a model's stream: LiteLLM chooses the provider, the address, the key and the parameters' names.

The demo model answers in this process, and a call of it does not import LiteLLM.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from agents.models.call import ModelCall, Timeouts
from agents.models.demo import is_demo
from agents.models.failures import failure_of, key_missing, refused_unprocessed, too_slow, unguarded
from agents.models.fast import fast_reader
from agents.models.lite import litellm_module
from agents.models.provider_call import provider_call
from agents.models.reader import Reader
from agents.models.wrapper import WrapperReader
from config.redaction import register_secrets

__all__ = ["ModelCall", "ModelStream", "Timeouts", "open_stream"]

_NO_KEY = "none"
"""Sent to an ``api_base`` for which no key was named: its client insists on one, and ours stays here."""
_UNGUARDED = "aiohttp_openai/"
"""LiteLLM's route that does not use httpx, so that no rule of ``agents.models.guard`` holds there."""
_OURS = frozenset({
    "model", "messages", "stream", "stream_options", "timeout", "request_timeout", "max_retries", "num_retries",
    "fallbacks", "context_window_fallback_dict", "callbacks", "acompletion", "mock_response",
})  # fmt: skip
"""What an agent's ``params`` cannot set: it would add a retry layer, a log or a timeout beside ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStream:
    """A stream that was opened; ``StreamedResponseWrapper`` reads it."""

    call: ModelCall
    reader: Reader
    started_at: float
    """The loop's time when the call began; the timers count from here."""


async def open_stream(call: ModelCall) -> ModelStream:
    """Return the stream of ``call``, answered by the provider with 200 but not read yet.

    Raises:
        ModelKeyMissing, ModelUnknown, ModelRefused: somebody has to change something first.
        ModelFailed, ModelTimeout: trying again may work.
    """
    started = asyncio.get_running_loop().time()
    if is_demo(call.model):
        from agents.models.demo.reader import DemoReader

        return ModelStream(call=call, reader=DemoReader(call), started_at=started)
    return ModelStream(call=call, reader=await _opened_by_litellm(call, started), started_at=started)


async def _opened_by_litellm(call: ModelCall, started: float) -> Reader:
    litellm = litellm_module()
    if call.model.startswith(_UNGUARDED):
        raise unguarded(call)
    missing = key_missing(call)
    if missing is not None:
        raise missing
    patience = min(call.timeouts.first_token_s, call.timeouts.total_s)
    try:
        async with asyncio.timeout_at(started + patience):
            with provider_call():
                opened = await litellm.acompletion(**arguments_of(call))
    except TimeoutError as late:
        raise too_slow("first_token_s" if patience < call.timeouts.total_s else "total_s", call) from late
    except Exception as error:
        raise failure_of(error, call) from error
    if opened is None:
        raise refused_unprocessed(call)
    return fast_reader(opened, call) or WrapperReader(opened, call)


def arguments_of(call: ModelCall) -> dict[str, Any]:
    """Return what LiteLLM is called with; the key is a secret from then on, whatever its variable is called."""
    register_secrets(filter(None, [call.api_key]))
    wanted: dict[str, Any] = {key: value for key, value in call.params.items() if key not in _OURS}
    wanted.update(
        model=call.model,
        messages=list(call.messages),
        stream=True,
        stream_options={"include_usage": True},
        timeout=_timeout(call.timeouts),
        max_retries=0,
        num_retries=0,
        drop_params=True,
    )
    optional = {
        "tools": list(call.tools) if call.tools else None,
        "tool_choice": call.tool_choice if call.tools else None,
        "response_format": call.response_format,
        "api_base": call.api_base,
        "api_key": call.api_key or (_NO_KEY if call.api_base and not call.api_key_env else None),
    }
    wanted.update({key: value for key, value in optional.items() if value is not None})
    return wanted


def _timeout(timeouts: Timeouts) -> Any:
    """Return LiteLLM's timeouts: the connection is theirs to watch. Reading is ours alone, see StreamTimer;
    a read timeout down there would arm and cancel a timer for each chunk."""
    import httpx

    return httpx.Timeout(connect=timeouts.connect_s, read=None, write=timeouts.first_token_s, pool=None)
