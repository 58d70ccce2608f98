"""The limits of the shipped tools' arguments are in their schemas, which are checked before the policy is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agents.catalogue import TOOLS, find_tool
from agents.testing import AgentKit, Call, Turn
from agents.tools.http import http_get
from bus.payloads import ToolResultPayload
from config.settings import Settings

OWN = tuple(
    sorted(name for name, entry in TOOLS.entries(Settings()).items() if entry.value.startswith("agents.tools."))
)


def texts(schema: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each schema of a text that an argument may be or have."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "string":
            yield path, schema
        for name, part in schema.items():
            yield from texts(part, f"{path}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from texts(part, path)


@pytest.mark.parametrize("name", OWN)
def test_every_text_that_a_shipped_tool_takes_has_a_limit(name: str, settings: Settings) -> None:
    parameters = find_tool(name, settings).parameters

    assert [path for path, text in texts(parameters) if not {"maxLength", "enum", "const"} & text.keys()] == []


@pytest.mark.parity
def test_a_call_beyond_a_limit_is_refused_before_the_policy_decides(tmp_path: Any) -> None:
    (tmp_path / "policy.yaml").write_text(
        "rules: [{name: never, verdict: halt, reason: 'No.', when: {tools: [http_get]}}]"
    )
    with AgentKit(tools=[http_get], settings={"policy": str(tmp_path / "policy.yaml")}) as kit:
        kit.model.script(
            Turn(calls=[Call(name="http_get", arguments={"url": "https://a.example/" + "x" * 4096})]), Turn(text="Oh.")
        )
        played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert (result.outcome, played.end.status) == ("failed", "succeeded")
    assert "url" in str(result.result)
