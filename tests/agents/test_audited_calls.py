"""With ``CALLBOARD_AUDIT_CALLS`` each start of a run, and of each call of a model or a tool, is in the audit chain."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.identity.audit.chain import entries, verify
from bus.identity.audit.entry import AuditEntry
from bus.journal.approvals import Decision
from bus.journal.log.group_commit import GroupCommit
from bus.journal.readers import steps_of
from bus.payloads import ApprovalPayload
from config.database.errors import DatabaseUnreachable


@tool(effect="pure")
def weigh(item: str) -> int:
    """Weigh it."""
    return len(item)


@tool(effect="unsafe", confirm=True)
def ship(item: str) -> str:
    """Ship it."""
    return f"{item} shipped"


def audited(kit: AgentKit) -> list[AuditEntry]:
    database = kit.runner.journal.database
    assert verify(database, "default").broken is None
    return [entry for entry in entries(database, "default") if entry.action in ("run.started", "call.started")]


def begin(kit: AgentKit, *calls: Call) -> RunHandle:
    kit.agent(tools=[weigh, ship])
    kit.model.script(Turn(calls=calls), Turn(text="Done."))
    return kit.run()


def calls_of(kit: AgentKit) -> list[tuple[str, Any, Any]]:
    return [(e.facts["name"], e.facts["kind"], e.facts["attempt"]) for e in audited(kit) if e.target == "step"]


def test_a_run_and_its_calls_are_in_the_chain_in_the_name_of_its_principal() -> None:
    with AgentKit(settings={"audit_calls": True}) as kit:
        handle = begin(kit, Call(name="weigh", arguments={"item": "tea"}))
        assert handle.result(30).status == "succeeded"

        started, *calls = audited(kit)
        with kit.runner.journal.database.read() as connection:
            steps = steps_of(connection, handle.run_id)

    assert (started.action, started.target_id, started.facts["agent"]) == ("run.started", handle.run_id, "tester")
    assert [(call.target_id, call.facts["arguments"]) for call in calls] == [
        (step["id"], step["arguments_digest"]) for step in steps
    ]
    assert {call.facts["run"] for call in calls} == {handle.run_id}
    assert {call.principal for call in (started, *calls)} == {kit.runner.principal.id}


def test_a_call_that_waits_for_a_person_is_recorded_when_it_begins() -> None:
    with AgentKit(settings={"audit_calls": True}) as kit:
        handle = begin(kit, Call(name="ship", arguments={"item": "tea"}))
        approval = next(event for event in handle.events() if isinstance(event, ApprovalPayload))
        before = [name for name, *_ in calls_of(kit)]
        handle.decide(approval.approval_id, Decision(decision="approve"))
        handle.result(30)
        after = [name for name, *_ in calls_of(kit)]

    assert "ship" not in before
    assert after.count("ship") == 1


def test_a_commit_whose_answer_is_lost_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[DatabaseUnreachable] = []
    submit = GroupCommit.submit

    def losing(commits: GroupCommit, *write: Any, **options: Any) -> Future[Any]:
        future = submit(commits, *write, **options)
        if options.get("last") is None or lost:
            return future
        future.result(10)  # it is committed
        lost.append(DatabaseUnreachable("the connection broke."))
        unanswered: Future[Any] = Future()
        unanswered.set_exception(lost[0])
        return unanswered

    monkeypatch.setattr(GroupCommit, "submit", losing)
    with AgentKit(settings={"audit_calls": True}) as kit:
        handle = begin(kit, Call(name="weigh", arguments={"item": "tea"}))
        handle.result(30)
        calls = calls_of(kit)

    assert lost
    assert [kind for _, kind, _ in calls] == ["model", "tool", "model"]


def test_nothing_is_recorded_without_the_setting(kit: AgentKit) -> None:
    begin(kit, Call(name="weigh", arguments={"item": "tea"})).result(30)

    assert audited(kit) == []
