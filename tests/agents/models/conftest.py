"""One model server and one event loop for everything here that goes through LiteLLM."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from agents.models.call import ModelCall
from agents.models.lite import litellm_module
from agents.models.open import open_stream
from agents.steps.streaming import StreamedResponseWrapper
from handlers.worker.warm_up import warm_up_to_fork
from tests.model_server import ModelServer

T = TypeVar("T")
Run = Callable[[Awaitable[T]], T]

AT_THE_ROOT = ("anthropic/", "azure/", "gemini/", "ollama_chat/")
"""The providers whose ``api_base`` has no ``/v1``."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def pytest_collection_finish(session: pytest.Session) -> None:
    """LiteLLM is imported before the first test: on a busy machine that takes longer than one test may."""
    if not session.config.option.collectonly and any(
        "_runner" in getattr(item, "fixturenames", ()) for item in session.items
    ):
        litellm_module()


@pytest.fixture(scope="session")
def _server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def server(_server: ModelServer) -> Iterator[ModelServer]:
    _server.forget()
    yield _server
    _server.resume(0)


@pytest.fixture(scope="session")
def _runner() -> Iterator[asyncio.Runner]:
    warm_up_to_fork()  # seconds of LiteLLM's own, which would count as a slow first token
    with asyncio.Runner() as runner:
        yield runner
        runner.run(_close_clients())


async def _close_clients() -> None:
    import litellm

    await litellm.close_litellm_async_clients()


@pytest.fixture
def run(_runner: asyncio.Runner) -> Run[Any]:
    """Runs a coroutine on the loop all calls share, as in a worker."""

    async def wait(awaitable: Awaitable[T]) -> T:
        return await awaitable

    return lambda awaitable: _runner.run(wait(awaitable))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-test-0123456789abcdef")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def call_of(server: ModelServer) -> Callable[..., ModelCall]:
    """Makes a call of the model server in any provider's dialect."""

    def make(model: str = "openai/test", **more: Any) -> ModelCall:
        base = server.root if model.startswith(AT_THE_ROOT) else server.url
        params = {"api_version": "2024-06-01"} if model.startswith("azure/") else {}
        fields: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": "What is the weather?"}],
            "api_base": base,
            "api_key_env": "TEST_MODEL_KEY",
            "params": {**params, **more.pop("params", {})},
        }
        return ModelCall(**{**fields, **more})

    return make


async def read(call: ModelCall) -> StreamedResponseWrapper:
    """Return the answer to ``call``, read to its end."""
    async with StreamedResponseWrapper(await open_stream(call)) as stream:
        async for _ in stream:
            pass
    return stream
