"""What a server asks of the client's model during a call (a sampling), as a model call of the run.

The model gets the server's texts alone: nothing of the run's conversation, whatever the server asks to include, and no
tools. It is the model of the run's agent, whatever the server would prefer.
"""

from __future__ import annotations

from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    TextContent,
)

from agents.tools.requests.sample import Sample, SampleRequest
from config.definitions.mcp.server import McpSamplingFields
from config.errors import CallboardError

MAX_MESSAGES = 100
MAX_CHARS = 200_000
"""Characters of all messages of a request and its instructions."""
MAX_STOPS, MAX_STOP = 4, 100
"""Stop sequences, and characters of each."""


class ServerSampler:
    """The samplings of one call, up to its server's limits."""

    def __init__(self, allowed: McpSamplingFields, sample: Sample | None) -> None:
        self._allowed, self._sample = allowed, sample
        self._calls = 0

    async def answer(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Return what the run's model answers, or why it was not asked or has not answered."""
        if not self._allowed.allowed or self._sample is None:
            return ErrorData(code=INVALID_REQUEST, message="Sampling not supported")
        if self._calls >= self._allowed.max_calls:
            return ErrorData(code=INVALID_REQUEST, message=f"at most {self._allowed.max_calls} samplings a call")
        self._calls += 1
        try:
            answer = await self._sample(_request(params, self._allowed.max_tokens))
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        except CallboardError as error:  # no more than its code is the server's business
            return ErrorData(code=INVALID_REQUEST, message=f"the model was not asked, or did not answer: {error.code}")
        content = TextContent(type="text", text=answer.text)
        reason = "maxTokens" if answer.is_cut else "endTurn"
        return CreateMessageResult(role="assistant", content=content, model=answer.model, stop_reason=reason)


def _request(params: CreateMessageRequestParams, max_tokens: int) -> SampleRequest:
    """Return what the model is asked.

    Raises:
        ValueError: it is not text alone, or too much.
    """
    if params.tools or params.tool_choice is not None:
        raise ValueError("samplings have no tools here")
    if not 0 < len(params.messages) <= MAX_MESSAGES:
        raise ValueError(f"a sampling has 1 to {MAX_MESSAGES} messages")
    messages = []
    for message in params.messages:
        parts = message.content_as_list
        if not all(isinstance(part, TextContent) for part in parts):
            raise ValueError("samplings are of text alone here")
        text = "\n".join(part.text for part in parts if isinstance(part, TextContent))
        messages.append({"role": str(message.role), "content": text})
    instructions = params.system_prompt or ""
    if len(instructions) + sum(len(one["content"]) for one in messages) > MAX_CHARS:
        raise ValueError(f"a sampling has at most {MAX_CHARS:,} characters")
    heat = params.temperature
    return SampleRequest(
        messages=messages,
        instructions=instructions,
        max_tokens=max(1, min(params.max_tokens, max_tokens)),
        temperature=min(max(heat, 0.0), 2.0) if heat is not None else None,
        stop=tuple(one[:MAX_STOP] for one in (params.stop_sequences or ())[:MAX_STOPS] if one),
    )
