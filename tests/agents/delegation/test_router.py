"""Routers: by rule and by capability no model is asked; where no route fits, the model chooses among the agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.models.call import ModelCall
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import definition_of
from config.definitions.router import PROMPT
from config.identity.principal import Principal

ROUTES = [
    {"contains": ["Refund", "money back"], "agent": "refunds"},
    {"matches": "order [0-9]+", "agent": "orders"},
    {"contains": "forecast", "capability": "clock"},
]


@tool(effect="pure")
def clock() -> str:
    """Say the time."""
    return "noon"


def respond(call: ModelCall) -> Turn:
    """Each agent says who it is; the router asks for the orders."""
    system = str(call.messages[0]["content"])
    if results := [str(message["content"]) for message in call.messages if message["role"] == "tool"]:
        return Turn(text=f"router: {results[0]}")
    if system == PROMPT:
        return Turn(calls=[Call(name="orders", arguments={"message": "Anything."})])
    return Turn(text=system)


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    with AgentKit() as agent_kit:
        for name in ("refunds", "orders"):
            agent_kit.agent(name, system_prompt=f"I am {name}.")
        agent_kit.agent("weather", system_prompt="I am weather.", tools=[clock])
        agent_kit.agent("desk", router=ROUTES, tools=["agent:weather"])
        del agent_kit._registry.defined["desk"]["system_prompt"]
        agent_kit.model.respond = respond
        yield agent_kit


@pytest.mark.parametrize(
    ("message", "answer", "requests"),
    [
        ("I want my MONEY BACK.", "I am refunds.", 1),
        ("Where is order 17?", "I am orders.", 1),
        ("Give me a forecast.", "I am weather.", 1),
        ("Something else.", "router: I am orders.", 3),
    ],
    ids=["by words", "by pattern", "by capability", "by model"],
)
def test_a_message_goes_to_the_agent_of_the_first_route_that_fits(
    kit: AgentKit, message: str, answer: str, requests: int
) -> None:
    played = kit.play(message, "desk")

    assert played.output == answer
    assert len(kit.model.requests) == requests, "a route asks no model but that of its agent"


def test_a_child_whose_agent_is_a_router_is_routed_too(kit: AgentKit) -> None:
    kit.agent("front", router=[{"agent": "desk"}])

    assert kit.play("Where is order 17?", "front").output == "I am orders."


def test_a_route_to_an_agent_that_the_principal_may_not_start_fails_and_says_so(kit: AgentKit) -> None:
    kit.agent("refunds", access={"principals": ["ann"]})

    end = kit.play("Refund me.", "desk", principal=Principal(id="bob")).end

    assert (end.status, end.reason) == ("failed", "delegation_refused")


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ({"contains": ["a"]}, "either `agent:` or `capability:`"),
        ({"agent": "a", "capability": "clock"}, "either `agent:` or `capability:`"),
        ({"agent": "a", "matches": "("}, "RE2"),
        ({"agent": "a", "matchs": "x"}, "matches"),
        ({"agent": "a b"}, "id of an agent"),
    ],
)
def test_a_route_that_leads_nowhere_is_a_mistake_of_the_file(route: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionInvalid, match="router") as refused:
        definition_of("desk", {"name": "Desk", "model": "auto", "router": [route]})

    assert problem in str(refused.value)
