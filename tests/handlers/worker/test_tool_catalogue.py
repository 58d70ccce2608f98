"""What a worker writes about the tools of its agents."""

from __future__ import annotations

from pathlib import Path

from agents.tools.catalogue import tools_of
from config.definitions.agent import load_definition
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

    found = {(one.name, one.effect, one.timeout_s): one for one in loaded_tools(loaded)}

    assert {key: one.agents for key, one in found.items()} == {
        ("clock", "pure", 5.0): ("a", "b"),
        ("clock", "unsafe", 7.0): ("c",),
        ("calculator", "pure", 5.0): ("a", "b", "c"),
    }
    calculator = found["calculator", "pure", 5.0]
    assert calculator.description
    assert calculator.input_schema["properties"]["expression"]["type"] == "string"
