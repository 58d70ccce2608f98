"""Resources and prompts of the SDK's server, as tools of an agent that names them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import forget, tools_of
from agents.testing import AgentKit
from agents.tools.mcp.pool import close_pools
from agents.tools.tool import Tool
from bus.payloads import ToolResultPayload
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.loading import load_definition
from config.effects import OUTWARD, UNTRUSTED, Classification, Effect
from config.settings import Settings

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]
SDK, FAKE = (Path(__file__).with_name(name) for name in ("sdk_server.py", "fake_server.py"))


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentKit]:
    folder = tmp_path_factory.mktemp("servers")
    words = {"command": sys.executable, "start_s": 20}
    (folder / "shop.yaml").write_text(json.dumps({**words, "args": [str(SDK), "stdio"]}))
    (folder / "bare.yaml").write_text(json.dumps({**words, "args": ["-I", str(FAKE)]}))
    allowance = {
        "roles": ["operator"],
        "classification": "RESTRICTED",
        "labels": ["trusted", "inward"],
        "timeout_s": 7,
    }
    (folder / "said.yaml").write_text(json.dumps({**words, "args": ["-I", str(FAKE)], "resources": allowance}))
    with AgentKit(settings={"mcp_servers_dir": str(folder)}) as agent_kit:
        resources = ["mcp:shop/docs://*", "mcp:bare"]
        agent_kit.agent("reader", resources=resources, prompts=["mcp:shop/review", "mcp:bare"])
        yield agent_kit
    close_pools()
    forget()


def ended(kit: AgentKit, tool: str, **arguments: Any) -> tuple[str, Any]:
    handle = kit.runner.call_tool(tool, arguments, agent_id="reader")
    status = handle.result(30).status
    (result,) = (event.result for event in handle.events() if isinstance(event, ToolResultPayload))
    return status, result


def output(kit: AgentKit, tool: str, **arguments: Any) -> Any:
    status, result = ended(kit, tool, **arguments)
    assert status == "succeeded", result
    return result


def test_resources_and_templates_that_are_named_are_listed(kit: AgentKit) -> None:
    listed = output(kit, "shop_list_resources")

    uris = {resource["uri"]: resource for resource in listed["found"]}
    assert sorted(uris) == ["docs://logo", "docs://long", "docs://readme"]
    assert uris["docs://readme"]["mime_type"] == "text/markdown"
    assert uris["docs://readme"]["description"] == "Read this first."
    assert [resource["uri_template"] for resource in listed["templates"]] == ["docs://pages/{name}"]
    assert [resource["uri"] for resource in output(kit, "shop_list_resources", search="READ THIS")["found"]] == [
        "docs://readme"
    ]


def test_a_resource_and_one_of_a_template_are_read_and_links_stay_text(kit: AgentKit) -> None:
    (content,) = output(kit, "shop_read_resource", uri="docs://readme")["contents"]

    assert content["mime_type"] == "text/markdown"
    assert content["text"].endswith("[this](file:///etc/passwd).")
    assert output(kit, "shop_read_resource", uri="docs://pages/one")["contents"][0]["text"] == "The page one."


def test_what_is_no_text_is_described(kit: AgentKit) -> None:
    (content,) = output(kit, "shop_read_resource", uri="docs://logo")["contents"]

    assert content == {
        "uri": "docs://logo",
        "mime_type": "image/png",
        "note": "1,000 bytes that are no text, which are not shown",
    }


def test_a_long_text_is_read_in_pieces(kit: AgentKit) -> None:
    (first,) = output(kit, "shop_read_resource", uri="docs://long")["contents"]

    assert (len(first["text"]), first["next_offset"], first["left"]) == (50_000, 50_000, "5 characters")
    (second,) = output(kit, "shop_read_resource", uri="docs://long", offset=first["next_offset"])["contents"]
    assert second["text"] == "yyyyy"
    assert "next_offset" not in second


@pytest.mark.parametrize(
    ("tool", "arguments", "error_text"),
    [
        ("shop_read_resource", {"uri": "private://salaries"}, "not among the resources"),
        ("shop_read_resource", {"uri": "docs://pages/../../private://salaries"}, "not among the resources"),
        ("shop_read_resource", {"uri": "docs://none"}, "refused the call"),
        ("shop_get_prompt", {"name": "other"}, "not among the prompts"),
        ("shop_get_prompt", {"name": "review"}, "refused the call"),
        ("bare_list_resources", {}, "refused the call"),
        ("bare_list_prompts", {}, "refused the call"),
    ],
)
def test_what_is_not_named_or_not_there_fails_the_call(
    kit: AgentKit, tool: str, arguments: Any, error_text: str
) -> None:
    status, result = ended(kit, tool, **arguments)

    assert status == "failed"
    assert error_text in str(result)
    assert "secret" not in str(result)


def test_prompts_that_are_named_are_listed_and_got(kit: AgentKit) -> None:
    assert output(kit, "shop_list_prompts")["found"] == [
        {
            "name": "review",
            "description": "Ask for a review.",
            "arguments": [{"name": "code", "required": True}, {"name": "tone", "required": False}],
        }
    ]
    got = output(kit, "shop_get_prompt", name="review", arguments={"code": "x = 1"})
    assert got == {"messages": [{"role": "user", "content": "Review this code in a kind tone: x = 1"}]}


# --- what they are ----------------------------------------------------------------------------------


def agent(tmp_path: Path, **fields: Any) -> AgentDefinition:
    path = tmp_path / "reader.yaml"
    path.write_text(json.dumps({"name": "R", "model": "demo/assistant", "system_prompt": "x", **fields}))
    return load_definition(path)


def built(kit: AgentKit, tmp_path: Path, **fields: Any) -> dict[str, Tool]:
    return tools_of(agent(tmp_path, **fields), kit.runner.settings)


def test_they_only_read_what_others_may_have_written(kit: AgentKit, tmp_path: Path) -> None:
    tools = built(kit, tmp_path, resources=["mcp:shop"], prompts=["mcp:shop"])

    assert sorted(tools) == ["shop_get_prompt", "shop_list_prompts", "shop_list_resources", "shop_read_resource"]
    assert {tool.effect for tool in tools.values()} == {Effect.PURE}
    assert {tool.labels for tool in tools.values()} == {frozenset({UNTRUSTED, OUTWARD})}


def test_the_servers_file_says_more_of_them(kit: AgentKit, tmp_path: Path) -> None:
    tools = built(kit, tmp_path, resources=["mcp:said"], prompts=["mcp:said"])

    read, prompt = tools["said_read_resource"], tools["said_get_prompt"]
    assert (read.classification, read.timeout_s, read.needs_approval) == (Classification.RESTRICTED, 7, True)
    assert (read.is_untrusted, read.is_outward, {str(role) for role in read.roles}) == (False, False, {"operator"})
    assert (prompt.needs_approval, prompt.is_untrusted) == (False, True)


@pytest.mark.parametrize("field", ["resources", "prompts"])
@pytest.mark.parametrize(
    ("line", "error_text"),
    [("mcp:nothing", "no MCP server 'nothing'"), ("shop", "mcp:server"), ("mcp:", "mcp:server")],
)
def test_a_line_that_names_no_server_is_refused(
    kit: AgentKit, tmp_path: Path, field: str, line: str, error_text: str
) -> None:
    with pytest.raises((ToolUnknown, DefinitionInvalid), match=error_text):
        built(kit, tmp_path, **{field: [line]})


def test_no_server_is_asked_to_load_an_agent(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "away.yaml").write_text(json.dumps({"command": "no-such-program"}))

    with_servers = settings.model_copy(update={"mcp_servers_dir": str(tmp_path)})

    assert len(tools_of(agent(tmp_path, resources=["mcp:away"]), with_servers)) == 2
