"""`mcp_server_definition` in an agent's file: which lines of `tools` it means, and that it starts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from config.definitions.agent import load_definition, pinned_definition
from config.definitions.errors import DefinitionInvalid


def written(folder: Path, server: Any, **fields: Any) -> Path:
    path = folder / "shopper.yaml"
    content = {"name": "S", "model": "auto", "system_prompt": "x", "mcp_server_definition": server, **fields}
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    return path


@pytest.mark.parametrize(
    ("server", "tools"),
    [
        ({"name": "stripe"}, ("clock", "mcp:stripe")),
        ({"name": "stripe", "included_tools": ["a", "b.c"]}, ("clock", "mcp:stripe/a", "mcp:stripe/b.c")),
        ({"name": "stripe", "included_tools": []}, ("clock",)),
        (None, ("clock",)),
    ],
)
def test_it_means_lines_of_tools(tmp_path: Path, server: Any, tools: tuple[str, ...]) -> None:
    definition = load_definition(written(tmp_path, server, tools=["clock"]))

    assert definition.tools == tools
    assert pinned_definition("shopper", definition.digest, definition.content_json).tools == tools


@pytest.mark.parametrize(
    ("server", "error_text"),
    [
        ({"name": "stripe", "command": "uvx"}, "move it to config/mcp_servers/stripe.yaml"),
        ({"name": "stripe", "args": ["mcp-server-stripe"]}, "may not have `args`"),
        ({"name": "stripe", "env": {"STRIPE_API_KEY": "x"}}, "may not have `env`"),
        ({"name": "stripe", "url": "https://mcp.stripe.com"}, "may not have `url`"),
        ({"name": "stripe", "tools": []}, "has no field `tools`; its fields are name and included_tools"),
        ({"included_tools": ["a"]}, "needs the `name` of a server"),
        ({"name": "../stripe"}, "needs the `name` of a server"),
        ({"name": "stripe", "included_tools": "a"}, "has to be a list"),
        ({"name": "stripe", "included_tools": ["a b"]}, "has to be a list"),
        ("stripe", "has to be a mapping, for example `{name: stripe}`"),
    ],
    ids="command args env url unknown no-name bad-name text bad-tool no-mapping".split(),
)
def test_it_starts_nothing(tmp_path: Path, server: Any, error_text: str) -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        load_definition(written(tmp_path, server))

    assert "shopper.yaml:5: mcp_server_definition: " in str(caught.value)
    assert error_text in str(caught.value)
