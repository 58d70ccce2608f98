"""The demo model as LiteLLM sees it."""

import asyncio
import subprocess
import sys

import pytest

from agents.models.demo import DemoModel, register_demo_model
from agents.models.lite import litellm_module
from config.settings import ROOT

TOOLS = [{"type": "function", "function": {"name": "calculator", "description": "x", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def litellm():
    return litellm_module()


def collect(litellm, text, model="demo/instant", **options):
    """Return the chunks of a streamed answer."""

    async def stream():
        answer = await litellm.acompletion(
            model=model, messages=[{"role": "user", "content": text}], stream=True,
            stream_options={"include_usage": True}, timeout=10, max_retries=0, **options,
        )  # fmt: skip
        return [chunk async for chunk in answer]

    return asyncio.run(stream())


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_streams_word_by_word_and_finishes(litellm):
    chunks = collect(litellm, "write 40 words")

    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(words) == 40
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason] == [
        "stop"
    ]


def test_says_the_same_each_time(litellm):
    assert text_of(collect(litellm, "hello")) == text_of(collect(litellm, "hello"))


def test_thinks_and_calls_tools_in_pieces(litellm):
    chunks = collect(litellm, "What is 17 * 23?", tools=TOOLS)

    thoughts = "".join(
        getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks if chunk.choices
    )
    deltas = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()]
    assert thoughts == "That is arithmetic: 17 * 23. "
    assert deltas[0].function.name == "calculator"
    assert deltas[0].id.startswith("call_")
    assert len(deltas) > 2
    assert "".join(delta.function.arguments or "" for delta in deltas) == '{"expression": "17 * 23"}'


def test_counts_what_it_used(litellm):
    usage = next(chunk.usage for chunk in collect(litellm, "write 40 words") if getattr(chunk, "usage", None))

    assert (usage.prompt_tokens, usage.completion_tokens) == (3, 40)


def test_fills_a_schema_when_asked(litellm):
    schema = {"type": "object", "properties": {"date": {"type": "string"}}, "required": ["date"]}
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}

    assert text_of(collect(litellm, "on 2026-12-03", response_format=asked)) == '{\n  "date": "2026-12-03"\n}'


@pytest.mark.parametrize(
    ("sentence", "status", "words"),
    [
        ("please fail", 500, "told to fail"),
        ("fail with 429", 429, "told to be busy"),
        ("fail halfway", 500, "told to break off"),
    ],
)
def test_fails_when_told(litellm, sentence, status, words):
    with pytest.raises(Exception, match=words) as caught:
        collect(litellm, sentence)

    assert getattr(caught.value, "status_code", None) == status


def test_fails_once_and_then_works(litellm):
    with pytest.raises(Exception, match="break off"):
        collect(litellm, "fail once, for this test")

    assert "This time it worked" in text_of(collect(litellm, "fail once, for this test"))


def test_breaks_off_in_the_middle_of_its_words():
    chunks = DemoModel().streaming("instant", [{"role": "user", "content": "fail halfway"}], {})
    spoken = next(chunks).choices[0].delta.content

    with pytest.raises(Exception, match="break off"):
        spoken += "".join(chunk.choices[0].delta.content for chunk in chunks)
    assert spoken == "This "


def test_answers_at_once_too(litellm):
    answer = litellm.completion(
        model="demo/instant", messages=[{"role": "user", "content": "What is 2 + 3?"}], tools=TOOLS
    )

    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"expression": "2 + 3"}'


def waits(model, sentence, options):
    return sum(piece.wait_s for piece in DemoModel()._pieces(model, [{"role": "user", "content": sentence}], options))


def test_its_pace_can_be_set():
    assert waits("instant", "write 100 words", {}) == 0
    assert waits("assistant", "write 100 words", {}) == pytest.approx(4, rel=0.1)
    assert waits("assistant", "write 100 words slowly", {}) > 5 * waits("assistant", "write 100 words", {})
    assert waits("assistant", "write 100 words", {"words_per_s": 1000}) < 0.3
    assert waits("assistant", "write 100 words", {"words_per_s": "fast"}) == 0


def test_registering_twice_changes_nothing(litellm):
    before = list(litellm.custom_provider_map)

    register_demo_model()

    assert litellm.custom_provider_map == before


def test_importing_it_does_not_bring_litellm():
    code = "import sys, agents.models.demo; print('litellm' in sys.modules)"

    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "False"
