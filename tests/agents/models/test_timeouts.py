"""Four timers, each with its own setting, over real HTTP; and streams that never end by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agents.models.call import ModelCall
from agents.models.errors import MODEL_TIMEOUT, ModelFailed
from agents.models.open import open_stream
from agents.models.streams.fast import SWITCH
from agents.steps.streaming import StreamedResponseWrapper
from config.definitions.model_fields import Timeouts
from tests.agents.models.conftest import read
from tests.model_server import ModelServer, Turn
from tests.raising import raises

PATHS = pytest.mark.parametrize("path", ["fast", "wrapper"])
LONG = Turn(text=[f"word {n} " for n in range(10_000)], pace=100)


@pytest.fixture(autouse=True)
def _path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "path" in request.fixturenames and request.getfixturevalue("path") == "wrapper":
        monkeypatch.setenv(SWITCH, "0")


@pytest.fixture(autouse=True)
def _first_call_is_over(_path: None, server: ModelServer, call_of: Callable[..., ModelCall], run: Any) -> None:
    """What LiteLLM does in its first call to a provider may take longer than the timers of these tests."""
    server.script([Turn(text="It is open.")])
    run(read(call_of("hosted_vllm/test")))
    server.forget()


@PATHS
def test_no_first_token_in_time(path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any) -> None:
    server.script([Turn(text="Too late.", first_delay_s=30)])

    with raises(MODEL_TIMEOUT, match=r"timeouts\.first_token_s") as caught:
        run(read(call_of("hosted_vllm/test", timeouts=Timeouts(first_token_s=0.2))))

    assert caught.value.facts == {"which": "first_token_s", "limit_s": 0.2}
    assert server.closed_early.wait(5)


def test_keep_alive_comments_are_no_first_token(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    comments = b": OPENROUTER PROCESSING\n\n" * 5
    server.script([Turn(raw=comments, stall_after=1)])

    with raises(MODEL_TIMEOUT, match=r"timeouts\.first_token_s"):
        run(read(call_of("openrouter/test/model", timeouts=Timeouts(first_token_s=0.2, between_chunks_s=9))))


@PATHS
def test_silence_in_the_middle(path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any) -> None:
    server.script([Turn(text="It begins and then it stops.", stall_after=4)])

    with raises(MODEL_TIMEOUT, match=r"timeouts\.between_chunks_s"):
        run(read(call_of("hosted_vllm/test", timeouts=Timeouts(between_chunks_s=0.2))))

    assert server.closed_early.wait(5)


@PATHS
def test_a_stream_that_trickles_ends_at_the_total_time(
    path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([LONG])

    with raises(MODEL_TIMEOUT, match=r"timeouts\.total_s"):
        run(read(call_of("hosted_vllm/test", timeouts=Timeouts(between_chunks_s=5, total_s=0.4))))

    assert server.closed_early.wait(5)


def test_a_slow_but_lively_stream_trips_nothing(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([Turn(text=[f"{n} " for n in range(10)], pace=25)])

    stream = run(read(call_of(timeouts=Timeouts(between_chunks_s=0.3))))

    assert stream.text == "0 1 2 3 4 5 6 7 8 9 "


def test_an_answer_without_end_is_cut_off(server: ModelServer, call_of: Callable[..., ModelCall], run: Any) -> None:
    server.script([Turn(text=[f"{n} " * 50 for n in range(1000)])])

    with pytest.raises(ModelFailed, match="too long"):
        run(read(call_of(max_output_chars=5000)))


def test_a_gzip_bomb_is_given_up(server: ModelServer, call_of: Callable[..., ModelCall], run: Any) -> None:
    server.script([Turn(raw=b"data: " + b"x" * 50_000_000, gzip=True)])

    with pytest.raises(ModelFailed, match="MiB"):
        run(read(call_of()))


def test_a_finished_answer_does_not_wait_for_the_connection_to_end(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    turn = Turn(text="All said.")
    server.script([Turn(text="All said.", stall_after=len(turn.events("openai", "test")))])

    stream = run(read(call_of(timeouts=Timeouts(between_chunks_s=30))))

    assert (stream.text, stream.finish_reason) == ("All said.", "stop")


def test_a_connection_is_used_again_after_a_whole_answer(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    for _ in range(3):
        run(read(call_of()))

    assert len({id(request.connection) for request in server.requests}) == 1


@PATHS
def test_a_cancelled_reader_closes_the_socket(
    path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([Turn(text="It begins and then it stops.", stall_after=4)])

    async def stopped() -> str:
        stream = StreamedResponseWrapper(await open_stream(call_of("anthropic/claude-sonnet-4-5")))
        begun = asyncio.Event()

        async def reading() -> None:
            async for _ in stream:
                if stream.text:
                    begun.set()

        task = asyncio.ensure_future(reading())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stream.text

    assert run(stopped()).startswith("It")
    assert server.closed_early.wait(5)


@PATHS
def test_a_reader_that_leaves_closes_the_socket(
    path: str, server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    server.script([LONG])

    async def left() -> None:
        async with StreamedResponseWrapper(await open_stream(call_of())) as stream:
            async for _ in stream:
                break

    run(left())

    assert server.closed_early.wait(5)
