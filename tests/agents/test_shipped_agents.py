"""The agents that ship: they work as they are, on the model that ships."""

import json

import pytest

from agents.catalogue import tools_of
from agents.checkup import deep_check
from agents.models import auto
from agents.models.call import ModelCall
from agents.models.demo.reader import NOT_KNOWN, answer
from agents.registry import AgentRegistry
from config.definitions.agent import AgentDefinition
from config.definitions.schemas.json_schema import schema_errors
from config.settings import ROOT, read_settings
from tests.agents.models.demo.talk import Talk

AGENTS = AgentRegistry([ROOT / "config" / "agents"])
SHIPPED = ("assistant", "atlas", "calendar", "office")
STARTERS = [(agent_id, starter) for agent_id in SHIPPED for starter in AGENTS.get(agent_id).starters]


def test_they_are_all_there_and_whole():
    assert set(SHIPPED) <= set(AGENTS.ids()), "a user's own agents may lie beside them"
    assert all(isinstance(AGENTS.get(agent_id), AgentDefinition) for agent_id in SHIPPED)


@pytest.mark.parametrize("agent_id", SHIPPED)
def test_each_can_run_and_introduces_itself(agent_id, monkeypatch):
    monkeypatch.setattr(auto, "OLLAMA_URL", "")
    agent = AGENTS.get(agent_id)

    assert deep_check(agent, read_settings(), {}) == []
    assert agent.model == "auto"
    assert 20 < len(agent.description) < 120
    assert 3 <= len(agent.starters) <= 4


@pytest.mark.parity
@pytest.mark.parametrize(("agent_id", "starter"), STARTERS)
def test_each_starter_works_on_the_demo_model(agent_id, starter, tmp_path):
    agent = AGENTS.get(agent_id)
    if agent.output_schema is not None:
        response_format = {"type": "json_schema", "json_schema": {"schema": agent.output_schema}}
        messages = [{"role": "user", "content": starter}]
        turn = answer(ModelCall(model="demo/instant", messages=messages, response_format=response_format))
        output = json.loads("".join(turn.text))
        assert schema_errors(agent.output_schema, output) == []
        assert output["date"]
        return
    talk = Talk(tmp_path, agent.tools)

    text = talk.say(starter)

    assert NOT_KNOWN not in text
    assert "Error" not in text
    assert talk.calls or "words" in starter


@pytest.mark.parity
def test_the_agent_of_channels_is_on_a_small_model_of_this_machine_with_files_of_its_own():
    agent = AGENTS.get("steward")

    assert deep_check(agent, read_settings(), {}) == []
    assert (agent.model, dict(agent.params)) == (auto.OLLAMA, {"temperature": 0})
    assert list(agent.tools) == ["list_files", "read_file", "write_file"]
    assert not agent.listed, "without Ollama no run of it succeeds, so lists leave it out"


def test_only_the_office_asks_a_person():
    settings = read_settings()
    asking = {
        (agent_id, name)
        for agent_id in SHIPPED
        for name, tool in tools_of(AGENTS.get(agent_id), settings).items()
        if tool.confirm
    }

    assert asking == {("office", "order_supplies")}
