"""Messages go to the provider as LiteLLM made them, and cost nothing each on the way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agents.models.lite import litellm_module
from agents.models.open import open_stream
from agents.models.replacements import replace_functions
from tests.agents.models.conftest import WEATHER

CALLED = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Pécs"}'}}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Täglich."},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [CALLED], "thinking_blocks": [{"type": "thinking", "x": 1}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": "warm \u2028 \x7f"},
    {"role": "assistant", "content": "It is warm."},
    {"role": "user", "content": ""},
]


@pytest.fixture
def completions() -> Any:
    """The SDK's module, whose function is ours. Imported here, or collecting tests would cost seconds of LiteLLM's."""
    litellm_module()
    from openai.resources.chat.completions import completions

    return completions


def sent(run: Any, server: Any, call: Any) -> Any:
    async def ask() -> None:
        stream = await open_stream(call)
        while await stream.reader.read() is not None:
            pass
        await stream.reader.aclose()

    run(ask())
    request = server.requests[-1]
    return request.path, json.dumps(request.body), {**request.headers, "x-stainless-read-timeout": ""}


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "openai/o1", "openai/test", "azure/test"])
def test_what_the_provider_gets_is_the_same_to_the_byte(run, server, call_of, completions, monkeypatch, model):
    plain = completions.async_maybe_transform.__wrapped__
    call = call_of(
        model, messages=CONVERSATION, tools=[WEATHER], tool_choice="auto", params={"temperature": 1, "seed": 3}
    )

    quick = sent(run, server, call)
    monkeypatch.setattr(completions, "async_maybe_transform", plain)
    slow = sent(run, server, call)

    assert quick == slow
    assert json.loads(quick[1])["messages"]


@pytest.mark.usefixtures("completions")
def test_the_sdk_looks_at_no_plain_request(run, server, call_of, monkeypatch):
    from openai._utils import _transform

    looks = []
    real = _transform._async_transform_recursive

    def counted(*arguments: Any, **options: Any) -> Any:
        looks.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(_transform, "_async_transform_recursive", counted)

    sent(run, server, call_of(messages=[{"role": "user", "content": "Hi"}], tools=[WEATHER], params={"seed": 3}))

    assert looks == []


@pytest.mark.parity
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [{"type": "text", "text": "x", "at": datetime(2026, 1, 1, tzinfo=UTC)}]}],
        ({"role": "user", "content": "a tuple"},),
        None,
    ],
)
def test_what_is_not_plain_is_still_transformed(run, completions, monkeypatch, messages):
    received = []

    async def transform(data: Any, expected: object) -> Any:
        received.append(data)
        return data

    monkeypatch.setattr(completions, "async_maybe_transform", transform)
    replace_functions()
    request = {"messages": messages, "model": "x"}

    assert run(completions.async_maybe_transform(request, dict)) == request
    assert received == [request]


@pytest.mark.parity
def test_plain_messages_are_not_transformed_beside_a_parameter_that_is(run, completions, monkeypatch):
    async def transform(data: Any, expected: object) -> Any:
        return {**data, "since": "2026-01-01"}

    monkeypatch.setattr(completions, "async_maybe_transform", transform)
    replace_functions()
    request = {"messages": [{"role": "user"}], "since": datetime(2026, 1, 1, tzinfo=UTC)}

    assert run(completions.async_maybe_transform(request, dict)) == {**request, "since": "2026-01-01"}


@pytest.mark.parity
def test_an_sdk_without_the_function_keeps_working(completions, monkeypatch, caplog):
    monkeypatch.delattr(completions, "async_maybe_transform")

    replace_functions()

    assert "long conversations take longer" in caplog.text


@pytest.mark.parity
def test_it_is_put_in_once(completions):
    before = completions.async_maybe_transform

    replace_functions()

    assert completions.async_maybe_transform is before
