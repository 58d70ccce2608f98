"""A scripted model whose script is in another process: a server on this machine that streams OpenAI's format.

A test's worker calls it without LiteLLM, whose import takes seconds in each process.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx

from agents.models.errors import MODEL_REFUSED, ModelFailed, is_temporary
from agents.models.failures import failure_of
from agents.models.streams.openai import OpenAIWire
from agents.models.streams.reader import ByteReader

if TYPE_CHECKING:
    from agents.models.call import ModelCall

_LOCAL = ("127.0.0.1", "localhost", "::1")


async def open_served(call: ModelCall) -> ByteReader:
    """Return the answer of the server at the call's ``api_base``."""
    url = httpx.URL(f"{call.api_base}/chat/completions")
    if url.host not in _LOCAL:
        raise MODEL_REFUSED(f"'{call.model}' has its script on this machine alone; address it as 127.0.0.1.")
    body = {
        "model": call.model.partition("/")[2],
        "messages": list(call.messages),
        "stream": True,
        "tools": list(call.tools) if call.tools else None,
        "tool_choice": call.tool_choice if call.tools else None,
        "response_format": call.response_format,
    }
    sent = {name: value for name, value in body.items() if value is not None} | dict(call.params)
    async with AsyncExitStack() as until_opened:
        # the stream's own timer limits it
        client = httpx.AsyncClient(timeout=None, trust_env=False, verify=False)
        until_opened.push_async_callback(client.aclose)
        try:
            response = await client.send(client.build_request("POST", url, json=sent), stream=True)
        except httpx.HTTPError as error:
            raise failure_of(error, call) from error
        if response.status_code != 200:
            kind = ModelFailed if is_temporary(response.status_code) else MODEL_REFUSED
            text = f"the server of '{call.model}' answered with HTTP {response.status_code}."
            raise kind(text, model=call.model, provider_status=response.status_code)
        until_opened.pop_all()
    return ByteReader(response, OpenAIWire(), client, call)
