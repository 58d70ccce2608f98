"""The fallback path: reads LiteLLM's own stream wrapper into chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.models.errors import ModelFailed
from agents.models.failures import failure_of
from agents.models.http.provider_call import provider_call
from agents.models.streams.chunk import Chunk, ToolDelta, Usage
from agents.models.streams.fast import response_of
from agents.models.streams.finish import finish_word
from agents.models.streams.wire import count, without_surrogates

if TYPE_CHECKING:
    from agents.models.call import ModelCall


class WrapperReader:
    """Reads a stream through LiteLLM, a chunk at a time.

    LiteLLM invents what a provider did not send: a finish reason ``stop`` for an interrupted stream, and a usage
    counted by a tokenizer. Neither is used.
    """

    def __init__(self, stream_wrapper: Any, call: ModelCall) -> None:
        self._wrapper = stream_wrapper
        self._call = call
        self._next = stream_wrapper.__aiter__().__anext__
        self._over = False
        self.finished = False
        self.done = False

    async def read(self) -> list[Chunk] | None:
        if self._over:
            return None
        try:
            with provider_call():  # some of LiteLLM's iterators make further requests
                piece = await self._next()
        except StopAsyncIteration:
            self._over = True
            return None
        except Exception as error:
            self._over = True
            raise failure_of(error, self._call) from error
        chunk = chunk_of(piece)
        if chunk.usage is not None:
            chunk.usage = self._counted()
        if chunk.finish_reason is not None:
            self._accept()
        return [chunk]

    def _counted(self) -> Usage | None:
        """Return the provider's own last usage; LiteLLM keeps its chunks."""
        for piece in reversed(getattr(self._wrapper, "chunks", ())):
            if getattr(piece, "usage", None) is not None:
                return usage_of(piece.usage)
        return None

    def _accept(self) -> None:
        said = getattr(self._wrapper, "received_finish_reason", "") or getattr(
            self._wrapper, "intermittent_finish_reason", ""
        )
        if said is None:
            self._over = True
            raise ModelFailed("the provider closed the stream before the answer was complete; it ended early.")
        self.finished = True

    async def aclose(self) -> None:
        response = response_of(getattr(self._wrapper, "completion_stream", None))
        if response is not None:
            await response.aclose()
        await self._wrapper.aclose()


def chunk_of(piece: Any) -> Chunk:
    """Translate one of LiteLLM's chunks, which may have no choices and no usage."""
    chunk = Chunk(usage=usage_of(getattr(piece, "usage", None)))
    choices = getattr(piece, "choices", None)
    if not choices:
        return chunk
    finish = getattr(choices[0], "finish_reason", None)
    if finish:
        chunk.finish_reason = finish_word(str(finish))
    delta = getattr(choices[0], "delta", None)
    if delta is not None:
        _read_delta(delta, chunk)
    return chunk


def _read_delta(delta: Any, chunk: Chunk) -> None:
    chunk.text = _clean(getattr(delta, "content", None)) + _clean(getattr(delta, "refusal", None))
    chunk.reasoning = _clean(getattr(delta, "reasoning_content", None))
    for position, call in enumerate(getattr(delta, "tool_calls", None) or ()):
        function = getattr(call, "function", None)
        index = getattr(call, "index", None)
        chunk.tools.append(
            ToolDelta(
                index=position if index is None else index,
                id=getattr(call, "id", None) or None,
                name=getattr(function, "name", None) or None,
                arguments=_clean(getattr(function, "arguments", None)),
            )
        )
    for block in getattr(delta, "thinking_blocks", None) or ():
        if block.get("type") == "redacted_thinking":
            chunk.redacted = str(block.get("data") or "")
        elif block.get("signature"):
            chunk.signature = block["signature"]


def usage_of(usage: Any) -> Usage | None:
    """Translate LiteLLM's usage."""
    if usage is None:
        return None
    spent = getattr(usage, "completion_tokens_details", None)
    asked = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        input_tokens=count(getattr(usage, "prompt_tokens", None)),
        output_tokens=count(getattr(usage, "completion_tokens", None)),
        reasoning_tokens=count(getattr(spent, "reasoning_tokens", None)),
        cached_tokens=count(getattr(asked, "cached_tokens", None)),
    )


def _clean(text: Any) -> str:
    if not isinstance(text, str):
        return ""
    return text if text.isascii() else str(without_surrogates(text))
