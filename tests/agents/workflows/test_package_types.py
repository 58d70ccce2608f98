"""The types of nodes that packages bring, and the table of all types."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from agents.testing import AgentKit
from bus.journal.stores import seed_node_types
from config.database.tables import node_types
from config.definitions.workflows.node_types import node_type_plugins
from tests.agents.workflows.flows import chain, node, results, states

PACKAGE = '''
from agents.tools.tool import tool

@tool(effect="pure")
def reverse(text: str) -> str:
    """Reverse a text."""
    return text[::-1]
'''
SEED_002 = {
    "START": "passthrough",
    "END": "passthrough",
    "TRANSFORM": "activity:execute_transform_node_activity",
    "FUNCTION": "activity:execute_function_node_activity",
    "LLM": "activity:execute_llm_node_activity",
    "CHOICE": "workflow:evaluate_choice",
    "CHOICE_LLM": "activity:execute_llm_router_activity",
    "SUB_WORKFLOW": "workflow:execute_child",
    "PARALLEL": "workflow:execute_parallel",
    "WAIT": "temporal:wait_for_event",
    "APPROVAL_GATE": "temporal:approval_gate",
    "FOR_EACH": "workflow_code:for_each",
    "FILTER": "activity:execute_filter_node_activity",
    "REDUCE": "activity:execute_reduce_node_activity",
}
"""The handlers of the second document."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of another author, installed with a type of its own."""
    (tmp_path / "mirror_nodes.py").write_text(PACKAGE)
    facts = tmp_path / "mirror-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mirror\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[callboard.node_types]\nREVERSE = mirror_nodes:reverse\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mirror_nodes", raising=False)
    node_type_plugins.cache_clear()
    yield
    node_type_plugins.cache_clear()


def rows(kit: AgentKit) -> dict[str, tuple[str, dict[str, Any]]]:
    with kit.runner.journal.database.read() as connection:
        table = connection.execute(select(node_types)).all()
    return {row.name: (row.handler, orjson.loads(row.config_schema_json or "{}")) for row in table}


def test_a_new_database_has_the_types_of_the_second_document_and_a_worker_adds_their_schemas(kit: AgentKit) -> None:
    before = rows(kit)
    with kit.runner.journal.database.write() as connection:
        seed_node_types(connection)

    assert {name: handler for name, (handler, _) in before.items()} == SEED_002
    assert {name: handler for name, (handler, _) in rows(kit).items()} == SEED_002
    assert {"prompt", "model"} <= rows(kit)["LLM"][1]["properties"].keys()


@pytest.mark.usefixtures("package")
def test_a_type_of_a_package_is_called_as_a_tool_with_its_config() -> None:
    with AgentKit() as kit:
        kit.workflow(**chain(node("r", "REVERSE", text="{{ input.text }}")))

        handle = kit.start("flow", {"text": "abc"})

        assert handle.result(5).output == "cba"
        assert states(kit, handle)["r"] == "done"
        assert results(kit, handle)["r"] == ("done", "cba")


@pytest.mark.usefixtures("package")
def test_the_row_of_a_packages_type_is_written_beside_the_shipped_ones(kit: AgentKit) -> None:
    with kit.runner.journal.database.write() as connection:
        seed_node_types(connection)
        seed_node_types(connection)

    assert rows(kit)["REVERSE"][0] == "plugin:mirror_nodes:reverse"
    assert len(rows(kit)) == len(SEED_002) + 1


@pytest.mark.usefixtures("package")
def test_a_config_that_the_package_does_not_take_fails_its_node() -> None:
    with AgentKit() as kit:
        kit.workflow(**chain(node("r", "REVERSE", word="abc")))

        end = kit.start("flow", {}).result(5)

        assert (end.status, end.reason) == ("failed", "arguments_invalid")
