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
from agents.tools.tool import tool
from bus.journal.stores import seed_node_types
from config.database.tables import node_types
from config.definitions.workflows.node_types import node_type_plugins
from tests.agents.workflows.conftest import Losses
from tests.agents.workflows.flows import END, START, answer, chain, edges, labels, node, results, states, until

PACKAGE = '''
from pydantic import BaseModel
from agents.tools import current_call
from agents.tools.tool import tool

CALLS = []

class Stamped(BaseModel):
    text: str
    has_key: bool

@tool(effect="pure")
def reverse(text: str) -> str:
    """Reverse a text."""
    return text[::-1]

@tool(effect="unsafe", labels=["outward"])
async def stamp(text: str) -> Stamped:
    """Stamp a text."""
    CALLS.append(text)
    return Stamped(text=text, has_key=bool(current_call().idempotency_key))

@tool(effect="idempotent", labels=["untrusted"], retries=0)
def fetch(number: int, fails: int = 0) -> int:
    """Fetch a number, after so many failures."""
    CALLS.append(number)
    if len(CALLS) <= fails:
        raise ConnectionError("busy")
    return number * 2
'''
TYPES = ("reverse", "stamp", "fetch")
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
    entries = "\n".join(f"{name.upper()} = mirror_nodes:{name}" for name in TYPES)
    (facts / "entry_points.txt").write_text(f"[callboard.node_types]\nLLM = mirror_nodes:reverse\n{entries}\n")
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

    assert rows(kit)["LLM"][0] == SEED_002["LLM"], "a shipped type stays what it is"
    assert rows(kit)["REVERSE"][0] == "plugin:mirror_nodes:reverse"
    assert len(rows(kit)) == len(SEED_002) + len(TYPES)


@pytest.mark.usefixtures("package")
def test_a_config_that_the_package_does_not_take_fails_its_node() -> None:
    with AgentKit() as kit:
        kit.workflow(**chain(node("r", "REVERSE", word="abc")))

        end = kit.start("flow", {}).result(5)

        assert (end.status, end.reason) == ("failed", "arguments_invalid")


# --- what the author of a type can rely on


def called() -> list[Any]:
    """Return what the package's functions were called with."""
    calls: list[Any] = sys.modules["mirror_nodes"].CALLS
    return calls


@pytest.mark.usefixtures("package")
def test_templates_of_the_config_give_data_and_the_result_is_plain_data_with_the_labels_of_its_tool() -> None:
    with AgentKit() as kit:
        first, second = node("f", "FETCH", number="{{ input.n }}"), node("s", "STAMP", text="{{ nodes.f }}!")
        kit.workflow(**chain(first, second))

        handle = kit.start("flow", {"n": 4})

        assert handle.result(5).output == {"text": "8!", "has_key": True}
        assert called() == [4, "8!"]
        assert labels(kit, handle)["s"] == ["untrusted"]


@pytest.mark.parity
@pytest.mark.usefixtures("package")
def test_it_is_called_for_each_item_and_not_again_after_a_loss(losses: Losses) -> None:
    each = node("each", "FOR_EACH", items="{{ input.items }}", at_once=1)
    with AgentKit() as kit:
        body = node("s", "STAMP", {"on_error": "continue"}, text="{{ item }}")
        kit.workflow(nodes=[START, each, body, END], edges=edges("start each", "each s foreach-body", "each end"))
        losses.begin(kit, frozenset({2, 4}))

        handle = kit.start("flow", {"items": ["a", "b", "c"]})
        while handle.status() not in ("succeeded", "failed"):
            if handle.approvals():
                answer(handle, "run_again")

        assert [result["text"] for result in handle.result(5).output] == ["a", "b", "c"]
        assert sorted(set(called())) == ["a", "b", "c"]
        assert len(called()) <= 3 + 2


@pytest.mark.parity
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("retry", "on_error", "output"), [(2, "fail", 6), (1, "continue", "tool_cut_off")])
def test_the_fields_of_every_node_hold_for_it(retry: int, on_error: str, output: Any) -> None:
    fetching = node("f", "FETCH", {"retry": retry, "on_error": on_error}, number=3, fails=2)
    result = "{{ nodes.f }}" if on_error == "fail" else "{{ nodes.f.error.code }}"
    with AgentKit() as kit:
        kit.workflow(**chain(fetching, node("t", "TRANSFORM", output=result)))

        assert kit.start().result(10).output == output
        assert called() == [3] * (retry + 1)


@pytest.mark.usefixtures("package")
def test_a_call_that_is_unsafe_is_not_repeated() -> None:
    with AgentKit() as kit:
        kit.workflow(**chain(node("s", "STAMP", {"retry": 1}, text="a")))
        handle = kit.start()

        assert (handle.result(5).reason, states(kit, handle)) == ("definition_invalid", {})


@pytest.mark.usefixtures("package")
def test_it_is_undone_by_the_call_that_its_node_names() -> None:
    undone: list[str] = []

    @tool(effect="idempotent")
    def unstamp(text: str) -> str:
        """Take a stamp away."""
        undone.append(text)
        return text

    stamping = node(
        "s", "STAMP", {"compensate": {"tool": "unstamp", "arguments": {"text": "{{ result.text }}"}}}, text="a"
    )
    with AgentKit() as kit:
        kit.workflow(tools=[unstamp], **chain(stamping, node("x", "TRANSFORM", output="{{ input.missing }}")))
        end = kit.start().result(5)

        assert (end.status, end.not_undone, called(), undone) == ("failed", None, ["a"], ["a"])


@pytest.mark.usefixtures("package")
def test_a_policy_judges_its_calls_and_an_end_names_what_was_not_undone(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{name: ask, verdict: require_approval, reason: Ask., when: {tools: [stamp]}}]")
    with AgentKit(settings={"policy": str(policy)}) as kit:
        kit.workflow(**chain(node("s", "STAMP", text="a"), node("x", "TRANSFORM", output="{{ input.missing }}")))
        handle = kit.start()
        until(handle, "waiting")
        assert called() == []

        answer(handle, "approve")

        assert handle.result(5).status == "failed"
        assert called() == ["a"]
        assert [left["node"] for left in handle.result(5).not_undone or []] == ["s"]
