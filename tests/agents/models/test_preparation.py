"""LiteLLM prepares a short call on the loop, and everything else on threads as before."""

from __future__ import annotations

import contextvars
import threading
from functools import partial

import pytest

from agents.models.call import ModelCall, provider_call
from agents.models.open import (
    MAX_CHARACTERS,
    MAX_MESSAGES,
    PreparationExecutor,
    is_short_preparation,
    open_stream,
    prepare_on_loop,
)
from agents.steps.streaming import StreamedResponseWrapper
from tests.agents.models.conftest import Run
from tests.model_server import ModelServer


def completion(**_: object) -> threading.Thread:
    """Stand for LiteLLM's function of that name; return the thread it is called on."""
    return threading.current_thread()


def preparation(
    model: str = "openai/gpt-test", messages: int = 1, content: object = "", tools: object = None
) -> partial[threading.Thread]:
    """Return what ``acompletion`` gives to the executor."""
    history = [{"role": "user", "content": content}] * messages
    return partial(contextvars.copy_context().run, partial(completion, model=model, messages=history, tools=tools))


@pytest.mark.parametrize(
    ("task", "is_short"),
    [
        (preparation(), True),
        (preparation("anthropic/claude-test"), True),
        (preparation("bedrock/some-model"), False),
        (preparation(messages=MAX_MESSAGES + 1), False),
        (preparation(content="x" * (MAX_CHARACTERS - 100)), True),
        (preparation(content="x" * MAX_CHARACTERS), False),
        (preparation(content=[{"type": "text", "text": "x" * MAX_CHARACTERS}]), False),
        (preparation(tools=[{"function": {"description": "x" * MAX_CHARACTERS}}]), False),
        (partial(print, "something else"), False),
        (print, False),
    ],
)
def test_only_a_short_call_of_a_known_provider_is_prepared_at_once(task: partial[object], is_short: bool) -> None:
    assert is_short_preparation(task) is is_short


def test_it_is_prepared_on_the_calling_thread_within_a_providers_call_alone() -> None:
    with PreparationExecutor(1) as executor:
        with provider_call():
            inside = executor.submit(preparation()).result(10)
        outside = executor.submit(preparation()).result(10)

    assert inside is threading.current_thread()
    assert outside is not threading.current_thread()


def test_an_error_of_the_preparation_is_the_futures() -> None:
    def completion(**_: object) -> None:
        raise ValueError("no such model")

    with PreparationExecutor(1) as executor, provider_call():
        future = executor.submit(partial(contextvars.copy_context().run, partial(completion, model="openai/x")))

    assert isinstance(future.exception(0), ValueError)


@pytest.mark.parity
@pytest.mark.parametrize("model", ["openai/gpt-test", "hosted_vllm/test", "anthropic/claude-sonnet-4-5"])
def test_litellm_prepares_a_call_the_way_this_expects(model: str, server: ModelServer, run: Run[int]) -> None:
    url = server.root if model.startswith("anthropic") else server.url
    call = ModelCall(model=model, messages=[{"role": "user", "content": "Hello"}], api_base=url)

    async def prepared() -> int:
        executor = prepare_on_loop()
        before = executor.prepared
        async with StreamedResponseWrapper(await open_stream(call)) as stream:
            async for _ in stream:
                pass
        return executor.prepared - before

    assert run(prepared()) == 1
