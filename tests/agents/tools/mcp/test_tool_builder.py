"""Tools of MCP servers: what they become from what the server lists and its file says, and what their calls return."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import find_tools, forget, tools_of
from agents.errors import OutputUnfit
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.mcp.pool import close_pools
from agents.tools.requests import CallAsks
from agents.tools.results import validate_output
from agents.tools.tool import Tool
from bus.loop import process_loop
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.loading import load_definition
from config.effects import OUTWARD, UNTRUSTED, Effect
from config.errors import ToolFailed
from config.settings import Settings
from tests.agents.tools.mcp.conftest import FAKE

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
Write = Callable[..., Settings]
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def write(settings: Settings, tmp_path: Path) -> Iterator[Write]:
    """Writes a server's file and returns the settings; ``tools`` are the server's own."""

    def written(name: str = "fake", tools: dict[str, Any] | None = None, **fields: Any) -> Settings:
        folder = tmp_path / "mcp_servers"
        folder.mkdir(exist_ok=True)
        content = {"command": sys.executable, "args": ["-I", str(FAKE)], **fields}
        if tools is not None:
            content["env"] = {"FAKE_TOOLS": json.dumps(tools)}
        (folder / f"{name}.yaml").write_text(json.dumps(content))
        return settings.model_copy(update={"mcp_servers_dir": str(folder)})

    yield written
    close_pools()
    forget()


def one(settings: Settings, path: str = "mcp:fake/add") -> Tool:
    (tool,) = find_tools(path, settings)
    return tool


def agent(tmp_path: Path, *tools: str) -> AgentDefinition:
    path = tmp_path / "shopper.yaml"
    path.write_text(json.dumps({"name": "S", "model": "demo/assistant", "system_prompt": "x", "tools": list(tools)}))
    return load_definition(path)


def call(tool: Tool, context: ToolContext, **arguments: Any) -> Any:
    return process_loop().run(call_tool(tool, arguments, context, 20.0))


def test_a_tool_is_what_the_server_lists(write: Write) -> None:
    tool = one(write(tools={"add": {"description": "Add.", "inputSchema": NUMBERS, "outputSchema": NUMBERS}}))

    assert (tool.name, tool.description, tool.parameters, tool.output_schema) == ("add", "Add.", NUMBERS, NUMBERS)
    assert tool.effect is Effect.UNSAFE
    assert tool.labels == {UNTRUSTED, OUTWARD}
    assert tool.implementation is not None


def test_the_servers_name_alone_means_all_its_included_tools(write: Write) -> None:
    assert len(find_tools("mcp:fake", write())) > 20
    assert [tool.name for tool in find_tools("mcp:fake", write("fake", None, included_tools=["echo"]))] == ["echo"]


@pytest.mark.parametrize(
    ("hints", "trusted", "effect"),
    [
        ({"readOnlyHint": True}, False, Effect.UNSAFE),
        ({"readOnlyHint": True}, True, Effect.PURE),
        ({"idempotentHint": True}, True, Effect.IDEMPOTENT),
        ({"readOnlyHint": False, "destructiveHint": False}, True, Effect.UNSAFE),
        ({}, True, Effect.UNSAFE),
    ],
)
def test_hints_count_where_they_are_trusted(write: Write, hints: Any, trusted: bool, effect: Effect) -> None:
    settings = write("fake", {"add": {"annotations": hints}}, trusted_hints=trusted)

    assert one(settings).effect is effect


def test_what_the_file_says_of_a_tool_counts_more_than_its_hints(write: Write, tmp_path: Path) -> None:
    declared = {
        "effect": "keyed",
        "confirm": True,
        "timeout_s": 5,
        "roles": ["operator"],
        "labels": ["trusted", "inward"],
    }
    settings = write("fake", {"add": {"annotations": {"readOnlyHint": True}}}, trusted_hints=True)
    path = tmp_path / "mcp_servers" / "fake.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tools": {"add": declared}}))

    tool = one(settings)

    assert (tool.effect, tool.confirm, tool.timeout_s) == (Effect.KEYED, True, 5)
    assert (tool.is_untrusted, tool.is_outward) == (False, False)
    assert {str(role) for role in tool.roles} == {"operator"}


def test_names_that_are_none_are_left_out_and_others_are_made_fit(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["a/b.c", "..", "x" * 100, "x" * 129, "two words", "😀", "a\nb", ""]

    tool_names = [tool.name for tool in find_tools("mcp:fake", write(tools={name: {} for name in names}))]

    assert tool_names[:2] == ["a_b_c", "__"]
    assert len(tool_names) == 3
    assert len(tool_names[2]) == 64
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"$id": "https://example.org/"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_cannot_be_used_costs_its_tool_alone(write: Write, schema: Any) -> None:
    settings = write(tools={"add": {"inputSchema": schema}, "good": {}})

    assert [tool.name for tool in find_tools("mcp:fake", settings)] == ["good"]
    with pytest.raises(ToolUnknown, match="cannot be used"):
        find_tools("mcp:fake/add", settings)


@pytest.mark.parametrize("levels", [20, 40])
def test_a_schema_that_is_nested_too_deeply_is_left_out_with_the_limit(write: Write, levels: int) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}

    with pytest.raises(ToolUnknown, match=r"nested .* 32"):
        find_tools("mcp:fake/add", write(tools={"add": {"inputSchema": schema}}))


def test_a_tool_that_the_protocol_does_not_know_is_left_out_with_its_place(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    settings = write(tools={"add": {"inputSchema": {"type": "string"}}, "good": {"inputSchema": {"type": "object"}}})

    assert [tool.name for tool in find_tools("mcp:fake", settings)] == ["good"]
    assert "add: its definition is none by the protocol, at inputSchema.type" in caplog.text
    with pytest.raises(ToolUnknown, match=r"no tool 'add' .* `./callboard mcp tools fake` says which are left out"):
        find_tools("mcp:fake/add", settings)


def test_the_name_of_a_dialect_is_no_hindrance(write: Write) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **NUMBERS}

    assert one(write(tools={"add": {"inputSchema": schema}})).parameters == NUMBERS


def test_the_headers_of_arguments_are_left_out(write: Write) -> None:
    named = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": named, "x-mcp-header": {"type": "string"}}}

    tool = one(write(tools={"add": {"inputSchema": schema}}))

    assert tool.parameters["properties"] == {"region": {"type": "string"}, "x-mcp-header": {"type": "string"}}


HIDDEN, SHOWN = "Add.\u200b\U000e0041\x1b[2J", "Add.⟨U+200B⟩⟨U+E0041⟩⟨U+001B⟩[2J"


@pytest.mark.parametrize(
    "words",
    [
        {"description": HIDDEN},
        {"$comment": HIDDEN},
        {"default": HIDDEN},
        {"examples": [{"say": HIDDEN}]},
        {"markdownDescription": HIDDEN, "enumDescriptions": [HIDDEN]},
        {"properties": {"enum": {"title": HIDDEN}, "description": {"items": {"title": HIDDEN}}}},
        {"anyOf": [{"not": {"title": HIDDEN}}]},
    ],
)
def test_hidden_instructions_become_visible(write: Write, words: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": words}, **words}

    tool = one(write(tools={"add": {"description": HIDDEN, "inputSchema": schema}}))

    listed = {
        key: json.loads(json.dumps(part).replace(json.dumps(HIDDEN), json.dumps(SHOWN))) for key, part in words.items()
    }
    assert tool.description == SHOWN
    assert tool.parameters == {"type": "object", "properties": {"a": listed}} | listed


@pytest.mark.parametrize(
    "words",
    [
        {"enum": [HIDDEN]},
        {"const": {"title": HIDDEN}},
        {"const": {HIDDEN: 1}},
        {"properties": {HIDDEN: {}}},
        {"required": [HIDDEN]},
        {"pattern": HIDDEN},
        {HIDDEN: 1},
    ],
)
def test_a_tool_is_left_out_whose_schema_validates_by_hidden_characters(write: Write, words: dict[str, Any]) -> None:
    settings = write(tools={"add": {"inputSchema": {"type": "object", "properties": {"a": words}}}, "good": {}})

    assert [tool.name for tool in find_tools("mcp:fake", settings)] == ["good"]
    with pytest.raises(ToolUnknown, match=r"'Add\.⟨U\+200B⟩.* has hidden characters"):
        find_tools("mcp:fake/add", settings)


def test_what_validates_stays_as_it_is(write: Write) -> None:
    values = {"enum": ["\r\n", "❤️", "👨‍👩‍👧", "می‌خواهم"], "const": {"x-mcp-header": "a"}, "pattern": "^\\u200b"}
    schema = {"type": "object", "properties": {"a": values}}

    assert one(write(tools={"add": {"inputSchema": schema}})).parameters == schema


def test_a_tool_whose_name_another_one_has_gets_its_server_before_it(write: Write, tmp_path: Path) -> None:
    write("shop", {"add": {}, "calculator": {}})
    settings = write("bank", {"add": {}, "pay": {}})

    tools = tools_of(agent(tmp_path, "mcp:shop", "mcp:bank", "calculator"), settings)

    assert set(tools) == {"shop_add", "add", "pay", "shop_calculator", "calculator"}
    assert not tools["calculator"].labels, "no server takes the place of a shipped tool"


def test_no_name_of_a_servers_tool_makes_an_agent_unloadable(write: Write, tmp_path: Path) -> None:
    write("shop", {"add": {}})
    settings = write("evil", {"a.b": {}, "a_b": {}, "add": {}, "shop_add": {}, "calculator": {}, "evil_calculator": {}})

    tools = tools_of(agent(tmp_path, "mcp:shop", "mcp:evil", "calculator"), settings)

    assert len(tools) == 8
    assert {tool.mcp for tool in tools.values() if tool.mcp} >= {("shop", "add"), ("evil", "a.b"), ("evil", "a_b")}
    assert tools["calculator"].mcp is None, "a shipped tool keeps its name"


def test_the_same_tool_twice_is_a_mistake(write: Write, tmp_path: Path) -> None:
    with pytest.raises(DefinitionInvalid, match="keep one"):
        tools_of(agent(tmp_path, "mcp:fake", "mcp:fake/echo"), write())


@pytest.mark.parametrize(
    ("path", "error_text"),
    [
        ("mcp:fak", "there is no MCP server 'fak'. Did you mean 'fake'?"),
        ("mcp:fake/ecco", "has no tool 'ecco' that may be used. Did you mean 'echo'?"),
        ("mcp:ends/echo", "status 4; its standard error ends with: a package is missing"),
        ("mcp:off", "the MCP server off is disabled; remove `disabled: true` from "),
        ("mcp:broken", "the MCP server 'broken' cannot be used: "),
        ("mcp:twin", "the server 'twin' is also in "),
    ],
)
def test_what_is_not_there_is_said_with_its_remedy(write: Write, path: str, error_text: str) -> None:
    write("ends", None, args=["-I", str(FAKE), "exit"])
    write("off", disabled=True)
    write("broken", comand="x")
    folder = Path(write("twin").mcp_servers_dir)
    (folder / "twin.yml").write_text((folder / "twin.yaml").read_text())

    with pytest.raises(ToolUnknown) as caught:
        find_tools(path, write())
    assert error_text in str(caught.value)


def test_a_tool_behind_those_that_are_read_is_said_to_be_unread(write: Write) -> None:
    settings = write(args=["-I", str(FAKE), "many_tools"])

    assert len(find_tools("mcp:fake", settings)) == 2000
    with pytest.raises(ToolUnknown, match=r"that may be used among its first 2,000 tools \(no more are read\)"):
        find_tools("mcp:fake/t2400", settings)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("echo", "hello"),
        ("structured", {"sum": 5}),
        (
            "pictures",
            [
                "see",
                {"type": "image", "mime_type": "image/png", "note": "3 bytes, which are not shown"},
                {"type": "resource_link", "uri": "file:///etc/passwd", "name": "passwords"},
            ],
        ),
        ("holograms", "[an item of the type 'holo⟨U+202E⟩gram', which is not known and not shown]\n\nsee"),
    ],
)
def test_a_result_is_structured_content_or_text(write: Write, context: ToolContext, name: str, result: Any) -> None:
    tool = one(write(tools={name: {}}), f"mcp:fake/{name}")

    assert call(tool, context, say="hello") == result


def test_a_failure_of_the_server_is_one_of_the_tool(write: Write, context: ToolContext) -> None:
    with pytest.raises(ToolFailed, match="it did not work"):
        call(one(write(), "mcp:fake/fail"), context)


def test_structured_content_that_does_not_fit_is_refused(write: Write, context: ToolContext) -> None:
    tool = one(write(tools={"structured": {"outputSchema": NUMBERS}}), "mcp:fake/structured")

    with pytest.raises(OutputUnfit):
        validate_output(tool, call(tool, context))


def test_a_tool_whose_definition_changed_is_asked_about(write: Write, context: ToolContext) -> None:
    settings = write(tools={"echo": {"description": "Say it."}, "redefine": {}})
    echo, redefine = find_tools("mcp:fake", settings)
    assert call(echo, context, say="a") == "a"

    call(redefine, context)

    with pytest.raises(CallAsks, match="has changed its tool echo"):
        call(echo, context, say="b")


def test_calls_on_many_threads_use_one_session(write: Write, context: ToolContext) -> None:
    tool = one(write(), "mcp:fake/environment")

    async def many() -> set[int]:
        results = await asyncio.gather(*(call_tool(tool, {}, context, 20.0) for _ in range(50)))
        return {json.loads(result)["pid"] for result in results}

    assert len(process_loop().run(many())) == 1
