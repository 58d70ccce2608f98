from __future__ import annotations

from typing import Any

import pytest

from agents.models.errors import ModelKeyMissing
from agents.models.keys import ModelKeys
from config.definitions.agent import AgentDefinition


def agent(agent_id: str, model: str = "openai/gpt-5-mini", **fields: Any) -> AgentDefinition:
    defaults: dict[str, Any] = {"system_prompt": "You are a test.", "digest": "", "content_json": "{}", "file": ""}
    return AgentDefinition(id=agent_id, name=agent_id, model=model, **defaults, **fields)


@pytest.fixture(autouse=True)
def has_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing asks LiteLLM here: each variable is named by the agent."""
    monkeypatch.setattr("agents.models.lite.is_imported", lambda: True)
    for name in ("KEY_A", "KEY_B"):
        monkeypatch.delenv(name, raising=False)


def test_the_variables_that_are_not_set_are_named_with_their_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    its = [agent("a", api_key_env="KEY_A"), agent("b", api_key_env="KEY_A"), agent("c", api_key_env="KEY_B")]
    its.append(agent("demo", "demo/assistant", api_key_env="KEY_C"))

    assert ModelKeys().missing(its, {}) == {"KEY_A": ["a", "b"], "KEY_B": ["c"]}

    monkeypatch.setenv("KEY_A", "one")
    assert ModelKeys().missing(its, {}) == {"KEY_B": ["c"]}
    monkeypatch.delenv("KEY_A")  # in the middle of the process's life
    assert ModelKeys().missing(its, {}) == {"KEY_A": ["a", "b"], "KEY_B": ["c"]}


def test_a_key_that_only_a_run_has_asked_for_is_named_until_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`model: auto` of an agent may be another model where the run was accepted."""
    model_keys = ModelKeys()
    with pytest.raises(ModelKeyMissing) as caught:
        model_keys.require(agent("auto", "auto", api_key_env="KEY_A"), "openai/gpt-5-mini")

    assert caught.value.variables == "KEY_A"
    assert model_keys.missing([], {}) == {"KEY_A": ["auto"]}
    monkeypatch.setenv("KEY_A", "one")
    assert model_keys.missing([], {}) == {}
