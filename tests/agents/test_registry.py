"""Agents by id: found in folders, read again when edited, none hidden by a broken neighbour."""

import subprocess
import sys

import pytest

from agents.errors import AgentUnknown
from agents.registry import AgentRegistry
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.settings import ROOT

TEXT = "name: {name}\nmodel: demo/assistant\nsystem_prompt: x\n"


def add(folder, agent_id, name="A", ending="yaml"):
    folder.mkdir(exist_ok=True)
    (folder / f"{agent_id}.{ending}").write_text(TEXT.format(name=name))


@pytest.fixture
def folder(tmp_path):
    add(tmp_path, "billing")
    add(tmp_path, "support")
    return tmp_path


def test_lists_ids_and_nothing_else(folder):
    (folder / ".hidden.yaml").write_text("x")
    (folder / "README.md").write_text("x")
    add(folder, "third", ending="yml")

    assert AgentRegistry([folder]).ids() == ["billing", "support", "third"]


def test_an_unknown_agent_is_answered_with_the_nearest(folder):
    with pytest.raises(AgentUnknown) as caught:
        AgentRegistry([folder]).get("suport")

    assert "there are: 'billing', 'support'. Did you mean 'support'?" in str(caught.value)


def test_an_unknown_id_is_neither_an_agent_nor_a_workflow_and_all_folders_are_named(folder):
    with pytest.raises(AgentUnknown) as caught:
        AgentRegistry([folder, folder / "workflows"]).get("bilings")

    text = str(caught.value)
    assert text.startswith("no agent or workflow is called 'bilings'; there are: ")
    assert f"Or add {folder}/bilings.yaml or {folder}/workflows/bilings.yaml." in text


@pytest.mark.parametrize(
    "agent_id", ["../billing", "", ".", "..", "a/b", "x" * 300, "billing\0", "billing.yaml", "\ud800"]
)
def test_an_id_that_is_a_path_finds_nothing(folder, agent_id):
    with pytest.raises(AgentUnknown):
        AgentRegistry([folder / "deeper", folder]).get(agent_id)


def test_an_edited_file_is_used_by_the_next_run(folder):
    registry = AgentRegistry([folder])
    before = registry.get("billing")
    add(folder, "billing", name="Edited")

    after = registry.get("billing")

    assert (before.name, after.name) == ("A", "Edited")
    assert before.digest != after.digest


def test_an_unchanged_file_is_read_once(folder):
    registry = AgentRegistry([folder])

    assert registry.get("billing") is registry.get("billing")


def test_a_file_that_broke_is_reported_and_mended_again(folder):
    registry = AgentRegistry([folder])
    registry.get("billing")
    (folder / "billing.yaml").write_text("name: [")

    with pytest.raises(DefinitionInvalid, match="is not YAML"):
        registry.get("billing")
    add(folder, "billing", name="Mended")
    assert registry.get("billing").name == "Mended"


def test_a_removed_file_is_unknown_from_then_on(folder):
    registry = AgentRegistry([folder])
    registry.get("billing")
    (folder / "billing.yaml").unlink()

    with pytest.raises(AgentUnknown):
        registry.get("billing")


def test_a_broken_file_hides_no_other(folder):
    (folder / "broken.yaml").write_text("nme: x")
    (folder / "not an id.yaml").write_text("x")

    entries = AgentRegistry([folder]).all()

    assert [type(item) for item in entries] == [AgentDefinition, DefinitionInvalid, DefinitionInvalid, AgentDefinition]


def test_the_first_folder_that_has_an_id_wins(tmp_path):
    add(tmp_path / "ours", "support", name="Ours")
    add(tmp_path / "theirs", "support", name="Theirs")
    add(tmp_path / "theirs", "sales", name="Sales")

    registry = AgentRegistry([tmp_path / "ours", tmp_path / "nowhere", tmp_path / "theirs"])

    assert registry.get("support").name == "Ours"
    assert registry.ids() == ["sales", "support"]
    assert [getattr(item, "name", None) for item in registry.all()] == ["Sales", "Ours"]


@pytest.mark.parity
def test_importing_it_brings_neither_litellm_nor_a_tool():
    code = (
        "import sys, agents.registry; print([name for name in sys.modules if name.split('.')[0] == 'litellm' "
        "or name in ('agents.tools.calculator', 'agents.catalogue')])"
    )

    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"
