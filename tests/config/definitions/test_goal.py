"""An agent's file in the words of the first design's goals."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.prompt import messages_for
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import load_definition

GOAL = """
id: bank
category_tag: finance
agent_name: Finance
agent_friendly_description: Shows balances.
model: auto
tools: [clock]
description: You help with accounts.
starter_prompt: What are my balances?
example_conversation_history: "user: Hello"
mcp_server_definition: {name: stripe, included_tools: [list_customers]}
""".lstrip()


def bank(folder: Path, text: str) -> AgentDefinition:
    path = folder / "bank.yaml"
    path.write_text(text)
    return load_definition(path)


def test_a_goal_is_an_agent_in_other_words(tmp_path: Path) -> None:
    agent = bank(tmp_path, GOAL)

    assert (agent.id, agent.name, agent.description, agent.category_tag) == (
        "bank",
        "Finance",
        "Shows balances.",
        "finance",
    )
    assert agent.system_prompt == "You help with accounts."
    assert agent.starters == ("What are my balances?",)
    assert agent.tools == ("clock", "mcp:stripe/list_customers")


def test_a_goals_instruction_follows_a_system_prompt(tmp_path: Path) -> None:
    agent = bank(tmp_path, GOAL + "system_prompt: Be brief.\n")

    assert agent.system_prompt == "Be brief.\n\nYou help with accounts."


def test_without_a_goals_fields_a_description_is_for_lists(tmp_path: Path) -> None:
    agent = bank(tmp_path, "name: Bank\nmodel: auto\nsystem_prompt: Be brief.\ndescription: Shows balances.\n")

    assert (agent.description, agent.system_prompt) == ("Shows balances.", "Be brief.")


def test_the_example_is_at_the_end_of_the_system_prompt(tmp_path: Path) -> None:
    (system,) = messages_for(bank(tmp_path, GOAL), (), is_cut=False, max_result_chars=100)

    assert system["content"].endswith("An example of such a conversation, which is not this one:\nuser: Hello")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOAL.replace("id: bank", "id: bnk"), "bank.yaml:1: id: `id` has to be the file's name, 'bank'; rename"),
        (GOAL + "name: Bank\n", "bank.yaml:3: agent_name: `agent_name` and `name` are the same field; keep one"),
        (GOAL + "starters: [Hi]\n", "bank.yaml:8: starter_prompt: `starter_prompt` and `starters` are the same"),
        (GOAL.replace("tools: [clock]\n", "").replace("mcp_server_definition", "#"), "bank.yaml:3: agent_name: "),
        (GOAL.replace("[clock]", "[]").replace("mcp_server_definition", "#"), "bank.yaml:6: tools: `tools` is empty"),
        (GOAL.replace("You help with accounts.", "[1]"), "bank.yaml:7: description: `description` has to be text"),
        (GOAL.replace("What are my balances?", "5"), "bank.yaml:8: starter_prompt: `starter_prompt` has to be text"),
    ],
)
def test_what_contradicts_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        bank(tmp_path, text)

    assert problem in str(caught.value)
