"""Tools have the names that clients take, mean one thing each, and are offered to those who may call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mcp import MCPError
from mcp.shared.tool_name_validation import TOOL_NAME_REGEX
from mcp.types import INVALID_PARAMS

from config.definitions.agent import AgentDefinition
from config.definitions.loading import load_definition
from config.identity.principal import Principal, Role, Verb
from tests.web.mcp.conftest import Place
from web.mcp.offers import offers
from web.mcp.results import run_schema
from web.mcp.run_tools import RUN_TOOLS

RESERVED = frozenset(RUN_TOOLS)


def _agent(folder: Path, agent_id: str) -> AgentDefinition:
    path = folder / f"{agent_id}.yaml"
    path.write_text("name: One\nmodel: demo/assistant\nsystem_prompt: You are a test.\n")
    return load_definition(path)


@pytest.mark.parametrize("listing", ["list_tools", "list_resources", "list_resource_templates"])
def test_a_cursor_that_no_list_has_given_is_refused(listing: str, place: Place, mode: str) -> None:
    with pytest.raises(MCPError, match="there is no such cursor: the list has one page") as caught:
        place.use(lambda client: getattr(client, listing)(cursor="x"), mode)

    assert caught.value.error.code == INVALID_PARAMS


def _tool(name: str, *agents: str, **more: Any) -> dict[str, Any]:
    facts = {"description": "A test.", "input_schema": {"type": "object"}, "effect": "pure", "output_schema": None}
    return {"name": name, "agents": agents, "roles": (), "needs_approval": False, **facts, **more}


def test_a_callers_agents_and_their_tools_are_listed(place: Place, mode: str) -> None:
    listed = place.use(lambda client: client.list_tools(), mode).tools

    names = [entry.name for entry in listed]
    assert names == [
        "assistant",
        "counter",
        "add",
        "book",
        "burn",
        "count_money",
        "open_safe",
        "repeat",
        "seat",
        "wait_outside",
        *RUN_TOOLS,
    ]
    by_name = {entry.name: entry for entry in listed}
    assert by_name["counter"].input_schema["required"] == ["input"]
    assert by_name["add"].input_schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "A person has to approve" in (by_name["book"].description or "")
    hints = by_name["add"].annotations, by_name["book"].annotations
    assert [hint.read_only_hint for hint in hints if hint is not None] == [True, False]
    effects = {name: (by_name[name].meta or {})["callboard/effect"] for name in ("counter", "add", "book")}
    assert effects == {"counter": "keyed", "add": "pure", "book": "keyed"}
    for tool in listed:
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            jsonschema_rs.meta.validate(schema)


def test_what_a_caller_may_not_use_is_not_listed(place: Place, mode: str) -> None:
    def names(principal: Principal) -> list[str]:
        listed = place.as_principal(principal).use(lambda client: client.list_tools(), mode).tools
        return [tool.name for tool in listed]

    assert "count_money" not in names(Principal(id="ann", roles=frozenset({Role.OPERATOR})))
    assert names(Principal(agents=frozenset({"assistant"}))) == ["assistant", *RUN_TOOLS]
    assert names(Principal(verbs=frozenset({Verb.SEE}))) == [*RUN_TOOLS]
    limited = place.as_principal(Principal(id="ann"))
    refused = limited.state("count_money", mode)
    assert (refused["status"], refused["code"]) == ("refused", "UNAUTHORIZED")
    other = place.as_principal(Principal(agents=frozenset({"assistant"})))
    with pytest.raises(Exception, match="no tool 'count_money'"):  # of an agent that it may not see
        other.call("count_money", mode)


def test_a_name_with_two_meanings_is_prefixed_by_the_agent(tmp_path: Path) -> None:
    agents = [_agent(tmp_path, name) for name in ("clock", "press", "run_status")]
    tools = [_tool("clock", "press"), _tool("print", "press"), _tool("print", "clock", effect="unsafe")]

    by_name = offers(agents, tools, "press", RESERVED)

    assert list(by_name) == ["clock", "press", "agent_run_status", "press_clock", "press_print", "clock_print"]
    assert [(offer.agent.id, offer.tool) for offer in by_name.values()][3:] == [
        ("press", "clock"),
        ("press", "print"),
        ("clock", "print"),
    ]


def test_a_tool_of_several_agents_is_the_default_agents(tmp_path: Path) -> None:
    agents = [_agent(tmp_path, name) for name in ("one", "two")]

    assert offers(agents, [_tool("look", "one", "two")], "two", RESERVED)["look"].agent.id == "two"
    assert offers(agents, [_tool("look", "one", "two")], "none", RESERVED)["look"].agent.id == "one"
    assert "look" not in offers(agents, [_tool("look", "three")], "one", RESERVED)


def test_what_is_no_name_for_clients_is_made_one(tmp_path: Path) -> None:
    names = ["read/file", "read:file", "a" * 128, "a" * 127 + "!", "tool~", "tool!", "shop.find"]

    by_name = offers([_agent(tmp_path, "one")], [_tool(name, "one") for name in names], "one", RESERVED)

    assert len(by_name) == len(names) + 1
    assert all(TOOL_NAME_REGEX.fullmatch(name) for name in by_name)
    assert {offer.tool for offer in by_name.values() if offer.tool} == set(names)


@pytest.mark.parametrize(
    "output",
    [
        None,
        {"type": "integer"},
        {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
        {"$ref": "https://example.org/schema"},
        {"$id": "https://example.org/schema", "type": "string"},
    ],
)
def test_the_schema_of_a_result_is_whole(output: dict[str, Any] | None) -> None:
    schema = run_schema(output)

    compiled = jsonschema_rs.Draft202012Validator(schema)
    assert compiled.is_valid({"status": "waiting", "run_id": "run_1"})
    assert "example.org" not in str(schema)
