"""Who gives signals, and to which run."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from agents.testing import AgentKit
from bus.journal.clients import SIGNAL
from bus.payloads import ChildPayload
from config.errors import CallboardError
from config.identity.principal import Principal, Role
from tests.agents.workflows import blueprints
from tests.agents.workflows.flows import END, START, chain, edges, events, labels, node, until


@pytest.mark.parametrize(
    ("caller", "code"),
    [
        (Principal(tenant="other", id="local", roles=frozenset(Role)), "run_unknown"),
        (Principal(id="eve"), "run_unknown"),
        (Principal(id="eve", roles=frozenset({Role.VIEWER})), "forbidden"),
        (Principal(id="eve", roles=frozenset({Role.OPERATOR})), None),
    ],
)
@pytest.mark.parametrize("door", ["runner", "journal"])
def test_a_signal_is_given_by_those_who_may_control_the_run(
    kit: AgentKit, caller: Principal, code: str | None, door: str
) -> None:
    kit.workflow(**chain(node("w", "WAIT", signal="paid")))
    handle, runner = kit.start(), kit.runner
    until(handle, "waiting")
    count = len(events(kit, handle))

    def give() -> Any:
        if door == "runner":
            return runner.signal(handle.run_id, "paid", 3, principal=caller)
        data = {"name": "paid", "data": 3}
        return runner.journal.clients.control(caller, handle.run_id, SIGNAL, by=caller.id, data=data)

    if code is None:
        give()
        assert handle.result(5).output == 3
        return
    with pytest.raises(CallboardError) as caught:
        give()
    assert (caught.value.code, handle.status()) == (code, "waiting")
    assert len(events(kit, handle)) == count
    handle.cancel()


def test_a_signal_of_an_item_is_given_to_the_child_run_that_works_on_it(kit: AgentKit) -> None:
    nodes = [START, node("go", "WAIT", signal="go"), node("each", "FOR_EACH", items=["a", "b"], spread=1)]
    nodes += [node("w", "WAIT", signal="paid", schema={"type": "integer"}), END]
    kit.workflow(nodes=nodes, edges=edges("start go", "go each", "each w foreach-body", "each end"))
    handle, give = kit.start(), kit.runner.signal
    with pytest.raises(CallboardError, match=r"The child run that works on the item .* Its signals: 'go'"):
        give(handle.run_id, "paid-0", 1)
    give(handle.run_id, "go", None)
    children = list(islice((event for event in handle.events() if isinstance(event, ChildPayload)), 2))

    for index, child in enumerate(children):
        with pytest.raises(CallboardError, match=r"The run above .* Its signals: 'paid-INDEX'"):
            give(child.child_run_id, "go", None)
        give(child.child_run_id, f"paid-{index}", 10 + index)

    assert handle.result(5).output == [10, 11]


@pytest.mark.parametrize("way", ["graph", "blueprint"])
def test_the_labels_of_a_signal_are_the_run_s_once_a_node_has_taken_it(kit: AgentKit, way: str) -> None:
    if way == "graph":
        kit.workflow(**chain(node("w", "WAIT", signal="shipped")))
    else:
        kit.workflow(blueprint=f"{blueprints.__name__}:WaitingBlueprint", signals={"shipped": {}})
    handle = kit.start("flow", {"signal": "shipped"})
    until(handle, "waiting")

    kit.runner.signal(handle.run_id, "shipped", 3, labels=["untrusted"])

    assert handle.result(5).output == 3
    assert ["untrusted"] in labels(kit, handle).values()
    assert kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id).labels_json == '["untrusted"]'
