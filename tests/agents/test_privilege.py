"""Privileged mode: by a grant alone, for one run, seen by its tools and the policy, in its log and the audit log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.call_context import current_call
from agents.tools.tool import tool
from bus.identity.credentials import grants as table
from bus.identity.credentials.grants import Grant, GrantForm
from bus.identity.errors import GRANT_REFUSED
from bus.journal.approvals import Decision
from bus.journal.clients import IdempotencyKey
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import StatusPayload
from config.database.shared_secret import shared_secret
from config.database.tables import audit, grants, runs
from config.errors import BadRequest
from config.identity.principal import Principal
from config.policy_decision import ALLOW_ALL, CallFacts, PolicyDecision
from handlers.run_agent import run_agent
from tests.raising import raises

ANN, BEN = Principal(id="ann"), Principal(id="ben")
seen: list[bool] = []
judged: list[tuple[str, bool]] = []


@tool(effect="pure")
def look(grant: str = "", privileged: bool = False) -> str:
    """Look whether this call is privileged.

    Args:
        grant: nothing.
        privileged: nothing.
    """
    seen.append(current_call().privileged)
    return "privileged" if current_call().privileged else "plain"


@tool(effect="pure", confirm=True)
def look_with_approval() -> str:
    """Look whether this call is privileged, when a person has approved it."""
    seen.append(current_call().privileged)
    return "looked"


class Judge:
    version, offers_sticky = "1", False

    def decide(self, facts: CallFacts) -> PolicyDecision:
        judged.append((facts.point, facts.is_privileged))
        return ALLOW_ALL.decide(facts)


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentKit]:
    seen.clear()
    judged.clear()
    with AgentKit(tools=[look, look_with_approval]) as agent_kit:
        yield agent_kit


def granted(kit: AgentKit, *, principal: str = "ann", agent: str = "tester", lifetime_s: int = 60) -> tuple[Grant, str]:
    database = kit.runner.journal.database
    form = GrantForm(partial(shared_secret, database, table.SECRET_NAME))
    form.open()
    fields = {"principal": principal, "agent_id": agent, "reason": "incident 4711"}
    with database.write() as connection:
        return table.issue(connection, form, kit.runner.principal, **fields, lifetime_s=lifetime_s)


def count_of_runs(kit: AgentKit) -> int:
    with kit.runner.journal.database.read() as connection:
        return len(connection.execute(select(runs.c.id)).all())


def looked(kit: AgentKit, **options: Any) -> RunHandle:
    """Return a run that has ended, whose model called the tool."""
    kit.model.script(Turn(calls=(Call(name="look"),)), Turn(text="Done."))
    handle = kit.run(principal=ANN, **options)
    assert handle.result(30).status == "succeeded"
    return handle


def test_tools_see_it_and_the_log_has_its_reason(kit: AgentKit) -> None:
    grant, text = granted(kit)

    handle = looked(kit, grant=text)

    assert seen == [True]
    first = next(event for event in handle.events() if isinstance(event, StatusPayload))
    assert first.privilege is not None
    assert (first.privilege["grant_id"], first.privilege["reason"]) == (grant.id, "incident 4711")
    assert kit.runner.journal.readers.runs.get(ANN, handle.run_id)["grant_id"] == grant.id
    with kit.runner.journal.database.read() as connection:
        rows = connection.execute(select(audit).where(audit.c.target == "grant").order_by(audit.c.number)).all()
        (row,) = connection.execute(select(grants)).all()
    assert [row.action for row in rows] == ["grant.issued", "grant.used"]
    assert row.run_id == handle.run_id
    assert text not in str(rows)


def test_the_policy_sees_it(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.compatibility import compatible_work

    def judging(loaded: Any, context: Any, *more: Any) -> Any:
        context.policy = Judge()
        return compatible_work(loaded, context, *more)

    monkeypatch.setattr("agents.execution.compatible_work", judging)
    looked(kit, grant=granted(kit)[1])
    looked(kit)

    assert [is_privileged for point, is_privileged in judged if point == "tool"] == [True, False]
    assert [is_privileged for point, is_privileged in judged if point == "model"] == [True, True, False, False]


def test_a_run_without_a_grant_is_not_privileged(kit: AgentKit) -> None:
    handle = looked(kit)

    assert seen == [False]
    assert next(iter(handle.events())).privilege is None  # type: ignore[attr-defined]  # the first one is a status


def test_one_call_of_a_tool_can_be_privileged(kit: AgentKit) -> None:
    grant = granted(kit)[1]

    handle = kit.runner.call_tool("look", {}, agent_id="tester", principal=ANN, grant=grant)

    assert handle.result(30).output == "privileged"


def test_it_ends_while_the_run_continues(kit: AgentKit) -> None:
    kit.model.script(
        Turn(calls=(Call(name="look"),)),
        Turn(text="now", calls=(Call(name="look"),), stall_after=0),
        Turn(text="Done."),
    )
    handle = kit.run(principal=ANN, grant=granted(kit, lifetime_s=1)[1])
    assert kit.model.wait_for_requests(2)
    time.sleep(1.1)
    kit.model.resume()

    assert handle.result(30).status == "succeeded"
    assert seen == [True, False]


def test_it_is_the_runs_after_an_approval_too(kit: AgentKit) -> None:
    handle = kit.runner.call_tool(
        "look_with_approval", {}, agent_id="tester", principal=ANN, grant=granted(kit)[1], detached=True
    )
    message = RunAgentMessage(run_id=handle.run_id, agent_id="tester", thread_id=handle.thread_id)
    run_agent(message.to_wire())
    handle.decide(handle.approvals()[0]["approval_id"], Decision(decision="approve"), by="ann")
    run_agent(message.to_wire())

    assert handle.result(10).output == "looked"
    assert seen == [True]


def test_a_grant_that_was_revoked_meanwhile_is_none(kit: AgentKit) -> None:
    grant, text = granted(kit)
    handle = kit.runner.call_tool("look", {}, agent_id="tester", principal=ANN, grant=text, detached=True)
    with kit.runner.journal.database.write() as connection:
        table.revoke(connection, grant.id, kit.runner.principal)

    run_agent(RunAgentMessage(run_id=handle.run_id, agent_id="tester", thread_id=handle.thread_id).to_wire())

    assert handle.result(10).output == "plain"


def test_a_repeated_request_has_the_first_ones_run(kit: AgentKit) -> None:
    key = IdempotencyKey(key="k", method="POST", path="/v1/runs", body_digest="d")
    grant = granted(kit)[1]
    first = looked(kit, grant=grant, idempotency=key)

    again = kit.run(principal=ANN, grant=grant, idempotency=key)

    assert (again.run_id, again.is_new) == (first.run_id, False)


# --- what gives no privilege ----------------------------------------------------------------------


def test_what_is_not_the_grant_of_this_start_is_refused_and_makes_no_run(kit: AgentKit) -> None:
    kit.agent("other")
    _, anns = granted(kit)
    grant, text = granted(kit)
    forged = text[:-1] + ("0" if text[-1] != "0" else "1")
    for grant_text, principal, agent in (
        (anns, BEN, "tester"),
        (anns, kit.runner.principal, "tester"),
        (anns, ANN, "other"),
        (forged, ANN, "tester"),
        (grant.id, ANN, "tester"),
        ("true", ANN, "tester"),
        ("", ANN, "tester"),
    ):
        with raises(GRANT_REFUSED):
            kit.run(agent_id=agent, principal=principal, grant=grant_text)

    assert count_of_runs(kit) == 0


def test_it_is_used_once(kit: AgentKit) -> None:
    grant = granted(kit)[1]
    looked(kit, grant=grant)

    with raises(GRANT_REFUSED, match="used before"):
        kit.run(principal=ANN, grant=grant)

    assert count_of_runs(kit) == 1


def test_a_message_gives_none(kit: AgentKit) -> None:
    grant, text = granted(kit)
    handle = kit.runner.call_tool("look", {}, agent_id="tester", principal=ANN, detached=True)
    wire = RunAgentMessage(run_id=handle.run_id, agent_id="tester", thread_id=handle.thread_id).to_wire()

    run_agent(wire | {"grant": grant.id, "privileged": True, "privileged_for_ms": 60_000, "roles": ["admin"]})

    assert handle.result(10).output == "plain"
    looked(kit, grant=text)  # the message has not used it


def test_neither_a_model_nor_metadata_nor_arguments_give_one(kit: AgentKit) -> None:
    grant, text = granted(kit)
    arguments = {"grant": grant.id, "privileged": True}
    kit.model.script(
        Turn(text=f"I am privileged: {grant.id}", calls=(Call(name="look", arguments=arguments),)), Turn(text="Done.")
    )
    metadata = {"privileged": True, "grant": grant.id, "grant_id": grant.id}
    kit.run(f"privileged: true, grant: {grant.id}", principal=ANN, metadata=metadata).result(30)

    assert seen == [False]
    looked(kit, grant=text)
    assert seen == [False, True]


@pytest.mark.parametrize("lifetime_s", [0, -1, table.MAX_LIFETIME_S + 1])
def test_it_has_an_end(kit: AgentKit, lifetime_s: int) -> None:
    with pytest.raises(BadRequest):
        granted(kit, lifetime_s=lifetime_s)
