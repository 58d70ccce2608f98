"""The stream's timers, its result and its endings, over a reader that plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_REFUSED, MODEL_TIMEOUT, ModelFailed
from agents.models.open import ModelStream
from agents.models.streams.chunk import Chunk, ToolDelta, Usage
from agents.steps.streaming import StreamedResponseWrapper
from config.definitions.model_fields import Timeouts
from config.errors import CallboardError
from tests.raising import raises

FOREVER = object()
"""In a script: the provider says nothing any more."""
DONE = object()
"""In a script: the end mark came with the batch before."""


class ScriptedReader:
    """Plays batches; an exception is raised, ``FOREVER`` waits until it is cancelled."""

    def __init__(self, script: Sequence[Any]) -> None:
        self._script = list(script)
        self.finished = False
        self.done = False
        self.waiting = asyncio.Event()
        self.closed = 0

    async def read(self) -> list[Chunk] | None:
        while self._script:
            item = self._script.pop(0)
            if item is FOREVER:
                self.waiting.set()
                await asyncio.Event().wait()
            if isinstance(item, Exception):
                raise item
            if isinstance(item, float):
                await asyncio.sleep(item)
                return []
            self.finished = self.finished or any(chunk.finish_reason for chunk in item)
            if self._script[:1] == [DONE]:
                self.done = bool(self._script.pop(0))
            batch: list[Chunk] = item
            return batch
        return None

    async def aclose(self) -> None:
        self.closed += 1


def stream_of(*script: Any, timeouts: Timeouts = Timeouts(), **more: Any) -> StreamedResponseWrapper:  # noqa: B008  # frozen
    call = ModelCall(model="test/model", messages=[], timeouts=timeouts, **more)
    now = asyncio.get_running_loop().time()
    return StreamedResponseWrapper(ModelStream(call=call, reader=ScriptedReader(script), started_at=now))


def reader_of(stream: StreamedResponseWrapper) -> ScriptedReader:
    reader = stream._reader
    assert isinstance(reader, ScriptedReader)
    return reader


async def drained(stream: StreamedResponseWrapper) -> list[list[Chunk]]:
    return [batch async for batch in stream]


def run(*script: Any, **more: Any) -> StreamedResponseWrapper:
    async def whole() -> StreamedResponseWrapper:
        stream = stream_of(*script, **more)
        await drained(stream)
        return stream

    return asyncio.run(whole())


END = [Chunk(finish_reason="stop")]


def test_what_arrives_at_once_is_one_batch_and_signs_of_life_are_none() -> None:
    async def batches() -> list[list[str]]:
        stream = stream_of([], [Chunk("one"), Chunk("two")], [], [Chunk("three", finish_reason="stop")])
        return [[chunk.text for chunk in batch] for batch in await drained(stream)]

    assert asyncio.run(batches()) == [["one", "two"], ["three"]]


def test_the_result_is_gathered() -> None:
    usage = Usage(input_tokens=1, output_tokens=2)

    stream = run(
        [Chunk("", "hm "), Chunk("", "so"), Chunk(signature="s1")],
        [Chunk("Hel"), Chunk("lo")],
        [Chunk(tools=[ToolDelta(index=0, id="a", name="look")]), Chunk(tools=[ToolDelta(index=0, arguments="{}")])],
        [Chunk(finish_reason="tool_calls"), Chunk(usage=usage)],
    )

    assert (stream.text, stream.reasoning) == ("Hello", "hm so")
    assert stream.thinking_blocks == [{"type": "thinking", "thinking": "hm so", "signature": "s1"}]
    assert [(call.id, call.name, call.arguments_text) for call in stream.tool_calls] == [("a", "look", "{}")]
    assert (stream.finish_reason, stream.usage) == ("tool_calls", usage)


def test_each_thinking_block_keeps_its_own_proof() -> None:
    stream = run(
        [Chunk("", "one"), Chunk(signature="s1"), Chunk(redacted="sealed"), Chunk("", "two"), Chunk(signature="s2")],
        [Chunk("said", finish_reason="stop")],
    )

    assert stream.thinking_blocks == [
        {"type": "thinking", "thinking": "one", "signature": "s1"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "thinking", "thinking": "two", "signature": "s2"},
    ]


def test_a_tool_is_named_while_its_arguments_still_stream() -> None:
    async def names() -> list[list[str]]:
        stream = stream_of(
            [Chunk(tools=[ToolDelta(index=0, id="a", name="look")])],
            [Chunk(tools=[ToolDelta(index=0, arguments='{"q"')])],
            [Chunk(tools=[ToolDelta(index=0, arguments=": 1}")])],
            END,
        )
        return [[call.name for call in stream.newly_named()] async for _ in stream]

    assert asyncio.run(names()) == [[], ["look"], [], []]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [(["stop"], "stop"), (["tool_calls", "stop"], "tool_calls"), (["stop", "length"], "length")],
)
def test_of_two_finish_reasons_the_one_that_says_more_is_kept(reasons: list[str], expected: str) -> None:
    stream = run([Chunk("x"), *(Chunk(finish_reason=reason) for reason in reasons)])

    assert stream.finish_reason == expected


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_answer_that_says_nothing_is_failed(text: str) -> None:
    with pytest.raises(ModelFailed, match="empty answer"):
        run([Chunk(text)], END)


def test_thinking_alone_is_no_answer() -> None:
    with pytest.raises(ModelFailed, match="max_tokens"):
        run([Chunk("", "thought"), Chunk(finish_reason="length")])


def test_a_filtered_answer_is_refused() -> None:
    with raises(MODEL_REFUSED, match="content filter"):
        run([Chunk(finish_reason="content_filter")])


def test_a_call_without_a_name_is_failed() -> None:
    with pytest.raises(ModelFailed, match="without naming"):
        run([Chunk(tools=[ToolDelta(index=0, id="a", arguments="{}")])], END)


def test_text_arguments_and_thinking_count_towards_the_longest_answer() -> None:
    piece = [Chunk("x" * 40, "y" * 40, tools=[ToolDelta(index=0, arguments="z" * 40)])]

    with pytest.raises(ModelFailed, match="too long"):
        run(piece, max_output_chars=100)


@pytest.mark.parametrize(
    ("which", "script", "timeouts"),
    [
        ("first_token_s", [[], FOREVER], Timeouts(first_token_s=0.02)),
        ("first_token_s", [0.015, 0.015, 0.015, FOREVER], Timeouts(first_token_s=0.03)),
        ("between_chunks_s", [[Chunk("a")], FOREVER], Timeouts(between_chunks_s=0.02)),
        ("total_s", [[Chunk("a")], *[0.01] * 1000], Timeouts(between_chunks_s=5, total_s=0.05)),
        ("total_s", [FOREVER], Timeouts(first_token_s=5, total_s=0.02)),
    ],
)
def test_each_timer_names_itself(which: str, script: list[Any], timeouts: Timeouts) -> None:
    async def late() -> tuple[CallboardError, int, bool]:
        stream = stream_of(*script, timeouts=timeouts)
        with raises(MODEL_TIMEOUT) as caught:
            await drained(stream)
        task = asyncio.current_task()
        assert task is not None
        return caught.value, reader_of(stream).closed, bool(task.cancelling())

    error, closed, cancelling = asyncio.run(late())

    assert error.facts["which"] == which
    assert f"timeouts.{which}" in str(error)
    assert (closed, cancelling) == (1, False)


def test_signs_of_life_keep_an_answer_alive_that_has_begun() -> None:
    stream = run([Chunk("a")], *[0.01] * 8, END, timeouts=Timeouts(between_chunks_s=0.05))

    assert stream.text == "a"


def test_time_the_consumer_takes_is_not_the_models() -> None:
    async def slow() -> str:
        stream = stream_of([Chunk("a")], [Chunk("b")], END, timeouts=Timeouts(between_chunks_s=0.03))
        async for _ in stream:
            await asyncio.sleep(0.06)
        return stream.text

    assert asyncio.run(slow()) == "ab"


def test_a_finished_answer_whose_connection_stays_open_is_whole() -> None:
    stream = run([Chunk("all", finish_reason="stop")], DONE, FOREVER)

    assert stream.text == "all"


def test_an_answer_with_a_finish_reason_but_no_end_is_whole_after_the_silence() -> None:
    stream = run([Chunk("all", finish_reason="stop")], FOREVER, timeouts=Timeouts(between_chunks_s=0.02))

    assert stream.text == "all"


def test_a_cancelled_reader_closes_and_stays_cancelled() -> None:
    async def stopped() -> tuple[int, str]:
        stream = stream_of([Chunk("half")], FOREVER)
        task = asyncio.ensure_future(drained(stream))
        await reader_of(stream).waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return reader_of(stream).closed, stream.text

    assert asyncio.run(stopped()) == (1, "half")


def test_what_the_reader_raises_is_raised_after_what_came_before() -> None:
    async def broken() -> tuple[str, int]:
        stream = stream_of([Chunk("half")], ModelFailed("broken"))
        with pytest.raises(ModelFailed, match="broken"):
            await drained(stream)
        return stream.text, reader_of(stream).closed

    assert asyncio.run(broken()) == ("half", 1)


def test_closing_twice_and_reading_after_it_do_no_harm() -> None:
    async def closed() -> tuple[int, list[list[Chunk]]]:
        stream = stream_of([Chunk("a")], END)
        async with stream:
            await stream.aclose()
        await stream.aclose()
        return reader_of(stream).closed, await drained(stream)

    assert asyncio.run(closed()) == (1, [])


def test_a_connection_that_does_not_close_is_left() -> None:
    class Stuck(ScriptedReader):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    async def left() -> str:
        now = asyncio.get_running_loop().time()
        call = ModelCall(model="test/model", messages=[])
        stream = StreamedResponseWrapper(ModelStream(call=call, reader=Stuck([[Chunk("a")], END]), started_at=now))
        async with asyncio.timeout(5):
            await drained(stream)
        return stream.text

    assert asyncio.run(left()) == "a"
