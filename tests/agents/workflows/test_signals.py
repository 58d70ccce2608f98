"""Signals of callers who may not give them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.testing import AgentKit
from bus.journal.clients import SIGNAL
from config.errors import CallboardError
from config.identity.principal import Principal, Role
from tests.agents.workflows.flows import chain, events, node, until


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
