"""What a worker writes about the tools of its agents."""

from __future__ import annotations

from pathlib import Path

from agents.catalogue import tools_of
from agents.tools import tool
from agents.tools.schema import build_tool
from config.definitions.loading import load_definition
from config.settings import Settings
from handlers.worker.tool_catalogue import loaded_tools

AGENT = "name: A\nmodel: demo/assistant\nsystem_prompt: x\ntools: [clock, calculator]\n"
OVERRIDES = "tool_overrides: {clock: {effect: unsafe, timeout_s: 7}}\n"


def test_a_tool_is_described_as_its_agents_use_it(tmp_path: Path, settings: Settings) -> None:
    loaded = []
    for name, text in {"a": AGENT, "b": AGENT, "c": AGENT + OVERRIDES}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
        definition = load_definition(tmp_path / f"{name}.yaml")
        loaded.append((definition, tools_of(definition, settings)))

    by_key = {(tool.name, tool.effect, tool.timeout_s): tool for tool in loaded_tools(loaded)}

    assert {key: entry.agents for key, entry in by_key.items()} == {
        ("clock", "pure", 5.0): ("a", "b"),
        ("clock", "unsafe", 7.0): ("c",),
        ("calculator", "pure", 5.0): ("a", "b", "c"),
    }
    calculator = by_key["calculator", "pure", 5.0]
    assert calculator.description
    assert calculator.input_schema["properties"]["expression"]["type"] == "string"


def test_a_tool_is_described_with_its_metadata_and_the_names_of_its_secrets_alone(
    tmp_path: Path, settings: Settings
) -> None:
    @tool(
        version="2.0.0",
        maintainer="a@example.org",
        kind="connector",
        classification="RESTRICTED",
        secrets={"TOKEN": "env:SHOP_TOKEN"},
    )
    def sell() -> None:
        """Sell."""

    (tmp_path / "a.yaml").write_text(AGENT.replace("[clock, calculator]", "[sell]"))
    definition = load_definition(tmp_path / "a.yaml")

    (entry,) = loaded_tools([(definition, tools_of(definition, settings, {"sell": build_tool(sell)}))])

    metadata = entry.metadata
    assert (metadata.version, metadata.classification, metadata.needs_approval) == ("2.0.0", "RESTRICTED", True)
    assert metadata.secrets == ("TOKEN",)
    assert metadata.labels == ("sensitive", "untrusted"), "also those that follow from its kind and classification"
    assert "SHOP_TOKEN" not in repr(entry)
