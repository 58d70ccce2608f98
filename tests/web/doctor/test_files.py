"""Files of agents that have no effect are named."""

from __future__ import annotations

from pathlib import Path

from agents.registry import AgentRegistry
from tests.web.doctor.conftest import verdicts
from web.doctor.agents import hidden_files


def test_a_file_that_hides_another_of_its_id_is_named(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("own", "shipped")]
    for folder in folders:
        folder.mkdir()
        (folder / "travel.yaml").write_text("name: T\nmodel: demo/assistant\nsystem_prompt: y\n")
    registry = AgentRegistry(folders)

    ((verdict, text),) = hidden_files(registry)

    assert (verdict, f"{folders[0]}/travel.yaml hides {folders[1]}/travel.yaml" in text) == ("warn", True)
    assert verdicts(hidden_files(registry, ["travel"])) == ["warn"]
    assert verdicts(hidden_files(registry, ["other"])) == []
