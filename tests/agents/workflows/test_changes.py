"""What changes while a run waits: its definition, its package, its list. And what does not fit at its end."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import update

from agents.handle import RunHandle
from agents.testing import AgentKit
from bus.payloads import ErrorPayload
from config.database.tables import steps
from config.definitions.errors import DefinitionInvalid
from config.definitions.workflows.node_types import node_type_plugins
from tests.agents.workflows.flows import END, START, chain, edges, events, node, until, wait_until
from tests.agents.workflows.test_package_types import package  # noqa: F401 - a fixture

WAIT = node("w", "WAIT", signal="go")


def problem(kit: AgentKit, handle: RunHandle) -> tuple[str, str]:
    """Return the code and the sentence with which a run fails."""
    assert handle.result(5).status == "failed"
    [error] = [event for event in events(kit, handle) if isinstance(event, ErrorPayload)]
    return error.code, error.message


def each(items: str, *body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a workflow that does one thing for each item."""
    nodes = [START, node("each", "FOR_EACH", items=items), *body, END]
    return {"nodes": nodes, "edges": edges("start each", f"each {body[0]['id']} foreach-body", "each end")}


def test_a_run_that_waits_keeps_the_definition_that_it_began_with(kit: AgentKit) -> None:
    kit.workflow(**chain(WAIT, node("t", "TRANSFORM", output="before")))
    handle = kit.start()
    until(handle, "waiting")

    kit.workflow(**chain(node("t", "TRANSFORM", output="after")))
    kit.runner.signal(handle.run_id, "go", None)

    assert handle.result(5).output == "before"
    assert kit.start().result(5).output == "after"


@pytest.mark.parity
@pytest.mark.usefixtures("package")
def test_a_run_whose_package_is_gone_waits_for_it_and_says_which_type_is_missed(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.workflow(**chain(node("w", "WAIT", seconds=1.1), node("r", "REVERSE", text="abc")))
    handle = kit.start()
    until(handle, "waiting")

    monkeypatch.undo()
    node_type_plugins.cache_clear()

    row = partial(kit.runner.journal.readers.runs.row, kit.runner.principal, handle.run_id)
    wait_until(lambda: row().reason == "code_version", "the run does not wait for code")
    assert "no node type 'REVERSE'" in row().detail
    with pytest.raises(DefinitionInvalid, match="no node type 'REVERSE'"):
        kit.runner.signal(handle.run_id, "go", None)
    handle.cancel()


def test_a_list_that_is_another_one_than_at_its_beginning_fails_its_node(kit: AgentKit) -> None:
    kit.workflow(**each("{{ input.numbers }}", WAIT))
    handle = kit.start("flow", {"numbers": [1, 2]})
    until(handle, "waiting")
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(steps).where(steps.c.node == "each").values(arguments_digest="0" * 64))

    kit.runner.signal(handle.run_id, "go-0", None)

    assert problem(kit, handle)[0] == "items_changed"


@pytest.mark.parametrize(
    ("items", "kind"), [("text", "a text"), ({"a": 1}, "a mapping"), (7, "a number"), (None, "null")]
)
def test_what_is_no_list_has_no_items(kit: AgentKit, items: Any, kind: str) -> None:
    kit.workflow(**each("{{ input.items }}", node("t", "TRANSFORM", output=1)))

    code, sentence = problem(kit, kit.start("flow", {"items": items}))

    assert code == "items_refused"
    assert sentence == f"node 'each' needs a list of at most 100,000 items, and this is {kind}; give it a list."


def test_an_output_that_does_not_fit_fails_the_run(kit: AgentKit) -> None:
    kit.workflow(**chain(node("t", "TRANSFORM", output="{{ input.n }}")), output={"type": "integer"})

    right, wrong = (kit.start("flow", {"n": n}) for n in (1, "one"))

    assert right.result(5).output == 1
    code, sentence = problem(kit, wrong)
    assert code == "output_invalid"
    assert '"one" is not of type "integer"' in sentence
