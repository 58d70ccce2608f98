"""Azure OpenAI by its configuration: the example of the documents, at the model server, through LiteLLM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agents.models.call import ModelCall
from agents.models.errors import ModelKeyMissing
from agents.models.open import open_stream
from agents.models.streams.reader import ByteReader
from config.definitions.agent import AgentDefinition
from config.definitions.loading import load_definition
from config.folders import ROOT
from tests.agents.models.conftest import WEATHER
from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.parity

HEAD = "# config/agents/office.yaml\nname: Office\n"


@pytest.fixture
def definition(server: ModelServer, tmp_path: Path) -> AgentDefinition:
    """Return the agent of docs/agents.md, with the model server's address in place of the resource's."""
    examples = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/agents.md").read_text(), re.DOTALL | re.MULTILINE)
    (example,) = [text for text in examples if text.startswith(HEAD)]
    path = tmp_path / "office.yaml"
    path.write_text(example.replace("https://my-resource.openai.azure.com", server.root))
    return load_definition(path)


def call_by(definition: AgentDefinition, **more: Any) -> ModelCall:
    fields: dict[str, Any] = {
        "model": definition.model,
        "messages": [{"role": "user", "content": "What time is it?"}],
        "tools": [WEATHER],
        "params": definition.params,
        "api_base": definition.api_base,
        "api_key_env": definition.api_key_env,
    }
    return ModelCall(**{**fields, **more})


def test_the_example_asks_the_deployment_and_is_read_on_the_fast_path(
    definition: AgentDefinition, server: ModelServer, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_API_KEY", "azure-key-0123456789")
    server.script([Turn(text="Noon.")])

    async def reader() -> type:
        stream = await open_stream(call_by(definition))
        await stream.reader.aclose()
        return type(stream.reader)

    assert run(reader()) is ByteReader

    (request,) = server.requests
    assert request.path == "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
    assert request.headers["api-key"] == "azure-key-0123456789"
    assert "authorization" not in request.headers
    assert (request.body["temperature"], request.body["stream"]) == (0, True)
    assert request.body["messages"][-1] == {"role": "user", "content": "What time is it?"}
    assert request.body["tools"][0]["function"]["name"] == "get_weather"
    assert "api_version" not in request.body


def test_without_an_address_nothing_is_sent_and_the_sentence_says_what_to_write(
    definition: AgentDefinition, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_API_KEY", "azure-key-0123456789")

    with pytest.raises(
        ModelKeyMissing, match="needs an address: write the resource's as `api_base:`, or set AZURE_API_"
    ):
        run(open_stream(call_by(definition, api_base=None)))


def test_the_address_may_stand_in_the_environment(
    definition: AgentDefinition, server: ModelServer, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_API_KEY", "azure-key-0123456789")
    monkeypatch.setenv("AZURE_API_BASE", server.root)
    server.script([Turn(text="Noon.")])

    async def ask() -> None:
        stream = await open_stream(call_by(definition, api_base=None))
        await stream.reader.aclose()

    run(ask())

    assert [request.path.partition("?")[0] for request in server.requests] == [
        "/openai/deployments/my-deployment/chat/completions"
    ]
