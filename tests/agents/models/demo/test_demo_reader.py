"""The demo model as a run sees it: a stream like any other's, without LiteLLM."""

import asyncio
import subprocess
import sys

import pytest

from agents.models.call import ModelCall
from agents.models.demo.reader import DemoReader
from agents.models.errors import ModelFailed
from agents.models.open import open_stream
from agents.steps.streaming import StreamedResponseWrapper
from config.settings import ROOT

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "calculator",
            "description": "x",
            "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
        },
    }
]


def asked(text, model="demo/instant", **options):
    return ModelCall(model=model, messages=[{"role": "user", "content": text}], **options)


def collect(call):
    """Return the stream, read to its end, and its chunks."""

    async def read():
        async with StreamedResponseWrapper(await open_stream(call)) as stream:
            return stream, [chunk async for batch in stream for chunk in batch]

    return asyncio.run(read())


def test_streams_word_by_word_and_finishes():
    stream, chunks = collect(asked("write 40 words"))

    assert len([chunk for chunk in chunks if chunk.text]) == 40
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["stop"]
    assert stream.finish_reason == "stop"


def test_says_the_same_each_time():
    assert collect(asked("hello"))[0].text == collect(asked("hello"))[0].text


def test_thinks_and_calls_tools_in_pieces():
    from config.effects import Effect

    stream, chunks = collect(asked("What is 17 * 23?", tools=TOOLS, effects={"calculator": Effect.PURE}))

    assert stream.reasoning == "This is for calculator: 17 * 23. "
    assert len([chunk for chunk in chunks if chunk.tools]) > 2
    [call] = stream.tool_calls
    assert (call.name, call.arguments_text) == ("calculator", '{"expression": "17 * 23"}')
    assert call.id.startswith("call_")
    assert stream.finish_reason == "tool_calls"


def test_counts_what_it_used():
    usage = collect(asked("write 40 words"))[0].usage

    assert (usage.input_tokens, usage.output_tokens) == (3, 40)


def test_fills_a_schema_when_asked():
    schema = {"type": "object", "properties": {"date": {"type": "string"}}, "required": ["date"]}
    response_format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}

    assert collect(asked("on 2026-12-03", response_format=response_format))[0].text == '{\n  "date": "2026-12-03"\n}'


@pytest.mark.parametrize("sentence", ["please fail", "fail halfway"])
def test_fails_when_asked(sentence):
    with pytest.raises(ModelFailed, match="asked to fail"):
        collect(asked(sentence))


def test_fails_once_and_then_works():
    with pytest.raises(ModelFailed, match="asked to fail"):
        collect(asked("fail once, for this test"))

    assert "This time it worked" in collect(asked("fail once, for this test"))[0].text


def test_breaks_off_in_the_middle_of_its_words():
    spoken: list[str] = []

    async def read():
        async with StreamedResponseWrapper(await open_stream(asked("fail halfway"))) as stream:
            async for batch in stream:
                spoken.extend(chunk.text for chunk in batch)

    with pytest.raises(ModelFailed, match="asked to fail"):
        asyncio.run(read())
    assert "".join(spoken).startswith("This time")


def seconds(sentence, model, **params):
    reader = DemoReader(asked(sentence, model, params=params))
    return sum(map(reader.seconds_before, reader.chunks))


def test_speaks_at_a_readable_pace_and_instantly_when_asked():
    normal = seconds("write 100 words", "demo/assistant")

    assert 1 < normal < 4
    assert seconds("write 100 words slowly", "demo/assistant") > 4 * normal
    assert seconds("write 100 words", "demo/instant") == 0
    assert seconds("write 100 words", "demo/assistant", words_per_s=200) < normal / 2


@pytest.mark.parity
def test_a_call_of_it_imports_no_litellm():
    code = (
        "import asyncio, sys\n"
        "from agents.models.call import ModelCall\n"
        "from agents.models.cost import cost_of\n"
        "from agents.models.open import open_stream\n"
        "from agents.steps.streaming import StreamedResponseWrapper\n"
        "async def read():\n"
        "    call = ModelCall(model='demo/instant', messages=[{'role': 'user', 'content': 'write 3 words'}])\n"
        "    async with StreamedResponseWrapper(await open_stream(call)) as stream:\n"
        "        async for batch in stream: pass\n"
        "    return cost_of(call.model, stream.usage)\n"
        "asyncio.run(read())\n"
        "print([name for name in ('litellm', 'openai', 'httpx') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert ran.stdout.strip() == "[]", ran.stderr


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ('Events in month 6: [["Fête", "21"], ["Festas", "12-29"]]', "Events in month 6: Fête, 21; Festas, 12-29."),
        ('They wrote: Hi: where?\nThe order: {"id": "1042", "is_paid": true}', "The order: id 1042, is paid yes."),
        ("Nothing: []", "I know only a few kinds"),
        ('Broken: {"id": ', "I know only a few kinds"),
    ],
)
def test_a_prompt_that_ends_with_data_is_answered_with_them_where_no_tools_are_offered(prompt, sentence):
    answers = [
        "".join(chunk.text for chunk in collect(asked(prompt, **options))[1]) for options in ({}, {"tools": TOOLS})
    ]

    assert answers[0].startswith(sentence)
    assert answers[1].startswith("I know only a few kinds")
