"""A scripted model whose script is a server of another process: its stream is read, and its failures are raised."""

from __future__ import annotations

import asyncio

import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.open import open_in_process
from agents.models.streams.chunk import Chunk
from config.errors import ErrorKind
from tests.model_server import Call, ModelServer, Turn
from tests.raising import raises


def read(server: ModelServer, api_base: str | None = None) -> list[Chunk]:
    async def work() -> list[Chunk]:
        call = ModelCall(model="scripted/any", messages=[{"role": "user", "content": "Hi"}], api_base=api_base)
        reader = await open_in_process(call)
        chunks: list[Chunk] = []
        try:
            while (batch := await reader.read()) is not None:
                chunks += batch
        finally:
            await reader.aclose()
        return chunks

    return asyncio.run(work())


def test_text_and_calls_are_read(server: ModelServer) -> None:
    server.script([Turn(text="Hello you.", calls=[Call(name="add", arguments={"a": 1})])])

    chunks = read(server, server.url)

    assert "".join(chunk.text for chunk in chunks) == "Hello you."
    assert "".join(delta.arguments for chunk in chunks for delta in chunk.tools) == '{"a": 1}'
    assert server.requests[-1].body["model"] == "any"


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (Turn(status=500), ModelFailed),
        (Turn(status=429), ModelFailed),
        (Turn(status=400), MODEL_REFUSED),
        (Turn(text="cut off here", disconnect_after=2), ModelFailed),
    ],
)
def test_a_failure_says_whether_it_may_pass(server: ModelServer, turn: Turn, error: ErrorKind) -> None:
    server.script([turn])

    with raises(error):
        read(server, server.url)


def test_a_script_of_another_machine_is_refused(server: ModelServer) -> None:
    with raises(MODEL_REFUSED, match="on this machine alone"):
        read(server, "http://example.com/v1")
