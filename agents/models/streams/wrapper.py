"""The fallback path: reads LiteLLM's own stream wrapper into chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.models.call import provider_call
from agents.models.errors import ModelFailed
from agents.models.failures import failure_of
from agents.models.streams.chunk import Chunk, Usage
from agents.models.streams.fast import response_of
from agents.models.streams.openai import OpenAIWire, usage_of
from agents.models.streams.wire import without_surrogates

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
        self._wire = OpenAIWire()
        self._over = False
        self.finished = False
        self.done = False

    async def read(self) -> list[Chunk] | None:
        if self._over:
            return None
        try:
            with provider_call():  # some of LiteLLM's iterators make further requests
                piece = await self._next()
            chunk = self._chunk_of(piece.model_dump(warnings=False))
        except StopAsyncIteration:
            self._over = True
            return None
        except Exception as error:
            self._over = True
            raise failure_of(error, self._call) from error
        if chunk.usage is not None:
            chunk.usage = self._counted()
        if chunk.finish_reason is not None:
            self._accept()
        return [chunk]

    def _chunk_of(self, body: dict[str, Any]) -> Chunk:
        """Translate one of LiteLLM's chunks, which have OpenAI's form and Anthropic's thinking beside it."""
        chunk = self._wire.chunk_of(body) or Chunk()
        chunk.text, chunk.reasoning = _clean(chunk.text), _clean(chunk.reasoning)
        chunk.tools = [replace(tool, arguments=_clean(tool.arguments)) for tool in chunk.tools]
        for choice in (body.get("choices") or ())[:1]:
            for block in (choice.get("delta") or {}).get("thinking_blocks") or ():
                if block.get("type") == "redacted_thinking":
                    chunk.redacted = str(block.get("data") or "")
                elif block.get("signature"):
                    chunk.signature = block["signature"]
        return chunk

    def _counted(self) -> Usage | None:
        """Return the provider's own last usage; LiteLLM keeps its chunks."""
        for piece in reversed(getattr(self._wrapper, "chunks", ())):
            if getattr(piece, "usage", None) is not None:
                return usage_of(piece.usage.model_dump(warnings=False))
        return None

    def _accept(self) -> None:
        finish_reason = getattr(self._wrapper, "received_finish_reason", "") or getattr(
            self._wrapper, "intermittent_finish_reason", ""
        )
        if finish_reason is None:
            self._over = True
            raise ModelFailed("the provider closed the stream before the answer was complete; it ended early.")
        self.finished = True

    async def aclose(self) -> None:
        response = response_of(getattr(self._wrapper, "completion_stream", None))
        if response is not None:
            await response.aclose()
        await self._wrapper.aclose()


def _clean(text: str) -> str:
    return text if text.isascii() else str(without_surrogates(text))
