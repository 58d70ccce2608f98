"""OpenAI's wire, byte by byte, and what servers that imitate it do to it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.models.errors import MODEL_REFUSED, ModelFailed
from agents.models.streams.anthropic import AnthropicWire
from agents.models.streams.chunk import Chunk, ToolDelta, Usage
from agents.models.streams.lines import MAX_EVENT_BYTES
from agents.models.streams.openai import OpenAIWire
from agents.models.streams.whole_calls import GeminiWire, OllamaWire
from agents.models.streams.wire import Wire
from config.errors import Permanent
from tests.model_turn import Call, Turn
from tests.raising import raises


def data(body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(value: dict[str, Any], finish: str | None = None) -> bytes:
    return data({"id": "c", "choices": [{"index": 0, "delta": value, "finish_reason": finish}]})


def read(stream: bytes, piece: int | None = None, wire: Wire | None = None) -> list[Chunk]:
    wire = wire or OpenAIWire()
    size = piece or len(stream) or 1
    chunks = [chunk for start in range(0, len(stream), size) for chunk in wire.feed(stream[start : start + size])]
    return chunks + wire.end()


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def arguments(chunks: list[Chunk], index: int = 0) -> str:
    return "".join(tool.arguments for chunk in chunks for tool in chunk.tools if tool.index == index)


KEYS = """
    choices delta content tool_calls function arguments name id index usage code finish_reason prompt_tokens
    completion_tokens_details error message type content_block content_block_start content_block_delta text partial_json
    thinking reasoning candidates parts functionCall args thought thoughtSignature promptFeedback blockReason
    finishReason usageMetadata promptTokenCount message done done_reason prompt_eval_count eval_count
""".split()
STREAM = b"".join(
    Turn(
        text="Grüße, 世界 👋🏽!",
        reasoning="Hm. Ja.",
        calls=[Call(name="lookup", arguments={"q": "é"}, piece=1), Call(name="other", arguments={"n": 1})],
        interleave=True,
    ).events("openai", "m")
)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, None])
def test_the_pieces_of_the_network_do_not_matter(piece: int | None, end: bytes) -> None:
    chunks = read(STREAM.replace(b"\n", end), piece)

    assert text(chunks) == "Grüße, 世界 👋🏽!"
    assert "".join(chunk.reasoning for chunk in chunks) == "Hm. Ja."
    assert arguments(chunks, 0) == '{"q": "\\u00e9"}'
    assert arguments(chunks, 1) == '{"n": 1}'
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["tool_calls"]
    assert chunks[-1].usage is not None


@pytest.mark.parity
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_chunks(cuts: list[int]) -> None:
    wire, edges = OpenAIWire(), sorted({0, *cuts, len(STREAM)})

    chunks = [chunk for a, b in pairwise(edges) for chunk in wire.feed(STREAM[a:b])]

    assert chunks + wire.end() == read(STREAM)


@given(noise=st.binary(max_size=300).filter(lambda noise: b"[DONE]" not in noise))
def test_noise_is_an_error_of_ours_or_nothing(noise: bytes) -> None:
    with raises(ModelFailed, MODEL_REFUSED):
        read(b"data: " + noise)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)


@pytest.mark.parity  # two seconds: the strategy is wide
@pytest.mark.parametrize("kind", [OpenAIWire, AnthropicWire, GeminiWire, OllamaWire])
@given(bodies=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), min_size=1, max_size=4))
def test_json_of_any_shape_is_read_or_an_error_of_ours(kind: type[Wire], bodies: list[Any]) -> None:
    wire = kind()

    try:
        lines = [data(body).removeprefix(b"data: " if kind is OllamaWire else b"") for body in bodies]
        chunks = [chunk for line in lines for chunk in wire.feed(line)] + wire.end()
    except (ModelFailed, Permanent):
        return

    for chunk in chunks:
        assert isinstance(chunk.text + chunk.reasoning + chunk.signature + chunk.redacted, str)
        assert all(isinstance(tool.arguments + (tool.id or "") + (tool.name or ""), str) for tool in chunk.tools)


def test_comments_events_ids_and_empty_data_say_nothing() -> None:
    stream = b"\xef\xbb\xbf: hello\nevent: message\nid: 7\nretry: 10\ndata:\n\n" + delta({"content": "hi"}, "stop")

    assert text(read(stream, 1)) == "hi"


def test_data_over_several_lines_is_one_event() -> None:
    stream = b'data: {"choices":\ndata:  [{"delta": {"content": "joined"},\ndata: "finish_reason": "stop"}]}\n\n'

    assert text(read(stream)) == "joined"


def test_events_without_blank_lines_between_them_are_distinguished() -> None:
    stream = (delta({"content": "a"}) + delta({"content": "b"}, "stop")).replace(b"\n\n", b"\n") + b"data: [DONE]\n"

    assert text(read(stream)) == "ab"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_has_two_names(field: str) -> None:
    chunks = read(delta({field: "thinks"}) + delta({"content": "says"}, "stop"))

    assert (chunks[0].reasoning, text(chunks)) == ("thinks", "says")


def test_a_refusal_is_text() -> None:
    assert text(read(delta({"refusal": "I will not."}, "stop"))) == "I will not."


def test_usage_comes_with_or_without_choices_and_the_details_are_kept() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    expected = Usage(input_tokens=9, output_tokens=4, reasoning_tokens=2, cached_tokens=3)

    alone = read(delta({"content": "x"}, "stop") + data({"choices": [], "usage": usage}))
    together = read(data({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}))

    assert alone[-1].usage == together[-1].usage == expected


def test_a_usage_of_null_is_none() -> None:
    chunks = read(data({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": None}))

    assert chunks[0].usage is None


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("eos", "stop"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("what", "stop"),
    ],
)
def test_finish_reasons_become_one_of_four(word: str, meant: str) -> None:
    assert read(delta({"content": "x"}, word))[0].finish_reason == meant


def test_two_finish_reasons_are_let_pass() -> None:
    chunks = read(delta({"content": "x"}, "stop") + delta({}, "length") + b"data: [DONE]\n\n")

    assert [chunk.finish_reason for chunk in chunks] == ["stop", "length"]


def test_nothing_is_read_behind_the_end_mark() -> None:
    wire = OpenAIWire()

    chunks = wire.feed(delta({"content": "x"}) + b"data: [DONE]\n\n" + delta({"content": "y"}) + b"data: {\n\n")

    assert (text(chunks), wire.finished, wire.done) == ("x", True, True)
    assert wire.end() == []


def test_calls_without_an_index_are_distinguished_by_id() -> None:
    def call(**piece: Any) -> bytes:
        return delta({"tool_calls": [piece]})

    stream = (
        call(id="a", function={"name": "one", "arguments": "{"})
        + call(function={"arguments": "}"})
        + call(id="b", function={"name": "two", "arguments": '{"x"'})
        + call(function={"arguments": ":1}"})
        + delta({}, "tool_calls")
    )

    chunks = read(stream)

    assert (arguments(chunks, 0), arguments(chunks, 1)) == ("{}", '{"x":1}')


def test_a_name_may_come_in_pieces_and_arguments_as_an_object() -> None:
    stream = delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_"}}]}) + delta(
        {"tool_calls": [{"index": 0, "function": {"name": "it", "arguments": {"n": 1}}}]}, "tool_calls"
    )

    tools = [tool for chunk in read(stream) for tool in chunk.tools]

    assert tools == [ToolDelta(index=0, id="a", name="get_"), ToolDelta(index=0, name="it", arguments='{"n":1}')]


def test_lone_surrogates_and_broken_utf_8_are_replaced() -> None:
    stream = rb'data: {"choices":[{"delta":{"content":"a\ud800b"}}]}' + b"\n\n"
    stream += b'data: {"choices":[{"delta":{"content":"c\xffd"},"finish_reason":"stop"}]}\n\n'

    output = text(read(stream))

    assert output == "a\ufffdbc\ufffdd"
    assert output.encode()


@pytest.mark.parametrize(
    "error",
    [
        {"message": "boom", "code": 500},
        {"message": "slow down", "code": 429},
        {"message": "slow down", "code": "rate_limit_exceeded"},
        {"message": "Overloaded", "type": "overloaded_error"},
        {"message": "unknown"},
        "just a text",
    ],
)
def test_an_error_in_the_stream_that_may_pass_is_failed(error: Any) -> None:
    with pytest.raises(ModelFailed):
        read(delta({"content": "Hel"}) + data({"error": error}))


@pytest.mark.parametrize(
    "error", [{"message": "no", "code": 400}, {"message": "no", "type": "invalid_request_error", "code": None}]
)
def test_an_error_in_the_stream_that_will_not_pass_is_refused(error: Any) -> None:
    with raises(MODEL_REFUSED):
        read(data({"error": error}))


def test_a_fault_does_not_eat_the_chunks_before_it() -> None:
    wire = OpenAIWire()

    chunks = wire.feed(delta({"content": "Hel"}) + delta({"content": "lo"}) + data({"error": {"message": "boom"}}))

    assert text(chunks) == "Hello"
    with pytest.raises(ModelFailed, match="boom"):
        wire.check()


@pytest.mark.parametrize("broken", [b"{", b"[]", b"5", b'"x"', b"nonsense", b"[" * 100_000, b'{"choices":[7]}'])
def test_a_malformed_chunk_is_failed(broken: bytes) -> None:
    with pytest.raises(ModelFailed):
        read(b"data: " + broken + b"\n\n")


@pytest.mark.parametrize("delta_value", [None, 5, "x", [1]])
def test_a_delta_of_the_wrong_kind_is_failed_or_empty(delta_value: Any) -> None:
    stream = data({"choices": [{"delta": delta_value}]})

    with pytest.raises(ModelFailed):
        read(stream)


def test_a_stream_that_breaks_off_ended_early() -> None:
    with pytest.raises(ModelFailed, match="ended early"):
        OpenAIWire().end()
    wire = OpenAIWire()
    wire.feed(delta({"content": "Hel"}))
    with pytest.raises(ModelFailed, match="ended early"):
        wire.end()


def test_no_end_mark_is_needed_after_a_finish_reason() -> None:
    wire = OpenAIWire()

    wire.feed(delta({"content": "all"}, "stop"))

    assert (wire.finished, wire.done, wire.end()) == (True, False, [])


def test_a_page_is_no_stream_and_says_so() -> None:
    wire = OpenAIWire()
    wire.feed(b"<html><body>Login with sk-abcdefghijklmnop</body>")

    with pytest.raises(ModelFailed, match="text/html instead of a stream") as caught:
        wire.end("text/html; charset=utf-8")

    assert "abcdefghijklmnop" not in str(caught.value)


def test_an_error_as_json_instead_of_a_stream_is_that_error() -> None:
    wire = OpenAIWire()
    wire.feed(b'{"error": {"message": "no such thing", "code": 404}}')

    with raises(MODEL_REFUSED, match="no such thing"):
        wire.end("application/json")


def test_an_endless_line_is_given_up() -> None:
    wire = OpenAIWire()
    wire.feed(b"data: " + b"x" * (MAX_EVENT_BYTES - 10))

    with pytest.raises(ModelFailed, match="MiB"):
        wire.feed(b"x" * 10)


def test_more_at_once_than_an_answer_can_have_is_given_up() -> None:
    with pytest.raises(ModelFailed, match="MiB"):
        OpenAIWire().feed(b"\n" * (MAX_EVENT_BYTES + 1))


@pytest.mark.parity  # five million lines
def test_an_event_of_empty_lines_without_end_is_refused():
    wire = OpenAIWire()

    with pytest.raises(ModelFailed, match="more than 4 MiB"):
        list(map(wire.feed, [b"data:\n" * 600_000] * 8))
