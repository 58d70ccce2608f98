"""A waiting run moves to today's version of its agent: what ran stays, and what was approved is asked again."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from agents.testing import Call, Turn
from bus.journal.approvals import Decision
from bus.journal.clients import CommitResult
from config.database.tables import approvals, audit
from config.errors import CallboardError
from config.identity.principal import LOCAL
from tests.agents import changing_tools
from tests.agents.test_compatibility import DONE, POST, TOOLS, WEIGH, Runs, its

__all__ = ["its"]

CONFIRMED = f"{TOOLS}\ntool_overrides: {{post: {{confirm: true}}}}"
NEW = "You are another test."


def asked(its: Runs) -> str:
    """Return a run that waits for the approval of its call."""
    its.write(CONFIRMED)
    its.kit.model.script(POST)
    run_id = its.accept()
    assert its.work(run_id) == "waiting"
    return run_id


def upgrade(its: Runs, run_id: str) -> CommitResult:
    runner = its.kit.runner
    offer = runner.registry.upgrade_of(runner.journal, LOCAL, run_id)
    return runner.journal.clients.upgrade(LOCAL, run_id, offer.version(offer.definition.digest), by="ann")


def questions(its: Runs, run_id: str) -> list[Any]:
    with its.kit.runner.journal.database.read() as connection:
        query = select(approvals).where(approvals.c.run_id == run_id).order_by(approvals.c.created_ms, approvals.c.id)
        return list(connection.execute(query).all())


def refusal(its: Runs, run_id: str) -> str:
    with pytest.raises(CallboardError) as caught:
        upgrade(its, run_id)
    assert caught.value.code == "upgrade_refused"
    return str(caught.value)


def test_an_open_question_is_void_and_asked_again_by_the_other_version(its: Runs) -> None:
    run_id = asked(its)
    its.write(CONFIRMED, prompt=NEW)

    assert upgrade(its, run_id).status == "queued"
    assert its.row(run_id).reason == "upgraded"
    assert its.work(run_id) == "waiting"

    before, again = questions(its, run_id)
    assert (before.decision, before.decided_by, again.decision) == ("void", "ann", None)
    with pytest.raises(CallboardError, match="void"):
        its.kit.runner.handle(run_id).decide(before.id, Decision(decision="approve"))
    its.kit.runner.handle(run_id).decide(again.id, Decision(decision="approve"))
    its.kit.model.script(DONE)
    assert its.work(run_id) == "succeeded"
    assert changing_tools.called == ["post A"]
    assert its.prompt() == NEW


def test_an_approval_that_nothing_has_used_is_void(its: Runs) -> None:
    run_id = asked(its)
    (question,) = questions(its, run_id)
    its.kit.runner.handle(run_id).decide(question.id, Decision(decision="approve"))
    its.set(run_id, status="waiting", reason="code_version")  # as a worker leaves it that lacks its code
    its.write(CONFIRMED, prompt=NEW)

    upgrade(its, run_id)

    assert its.work(run_id) == "waiting"
    assert changing_tools.called == []
    assert [row.decision for row in questions(its, run_id)] == ["void", None]


def test_the_log_the_steps_and_the_audit_log_tell_it(its: Runs) -> None:
    run_id = asked(its)
    steps, digest = len(its.steps(run_id)), its.row(run_id).definition_digest
    its.write(CONFIRMED, prompt=NEW)

    written = upgrade(its, run_id)

    assert [type(event).__name__ for event in written.events][-2:] == ["ApprovalPayload", "StatusPayload"]
    assert len(its.steps(run_id)) == steps
    with its.kit.runner.journal.database.read() as connection:
        entry = connection.execute(select(audit).where(audit.c.action == "run.upgraded")).one()
    assert (entry.target_id, digest in entry.facts_json) == (run_id, True)


def test_a_run_whose_tool_was_renamed_goes_on_with_the_version_that_names_the_other(its: Runs) -> None:
    its.kit.model.script(WEIGH)
    run_id = its.halfway()
    its.remove_tool("weigh")
    assert its.work(run_id) == "waiting"
    its.write("tools: [tests.agents.changing_tools:post]")
    its.set(run_id, reason="code_version")
    for step in its.steps(run_id):
        assert step.status in ("done", "planned", "started")

    assert upgrade(its, run_id).status == "queued"
    its.kit.model.script(DONE)

    status = its.work(run_id)
    assert (status, changing_tools.called) in [("succeeded", []), ("waiting", [])]  # begun: only its code may judge it


def test_only_a_waiting_run_that_behaves_otherwise_is_moved(its: Runs) -> None:
    run_id = asked(its)
    assert "there is nothing to move" in refusal(its, run_id)
    its.file.write_text(its.file.read_text() + "description: Another sentence.\n")
    assert "there is nothing to move" in refusal(its, run_id)

    its.write(CONFIRMED, prompt=NEW)
    its.set(run_id, status="running")
    assert "is running and keeps the version" in refusal(its, run_id)
    its.set(run_id, status="waiting")
    its.kit.runner.handle(run_id).cancel()
    assert "has ended (cancelled); start a new one" in refusal(its, run_id)


def test_another_version_than_was_shown_is_refused(its: Runs) -> None:
    run_id, runner = asked(its), its.kit.runner
    its.write(CONFIRMED, prompt=NEW)
    digest = runner.registry.upgrade_of(runner.journal, LOCAL, run_id).definition.digest
    its.write(CONFIRMED, prompt="You are a third test.")

    with pytest.raises(CallboardError, match="look at what would change now"):
        runner.registry.upgrade_of(runner.journal, LOCAL, run_id).version(digest)
    assert its.row(run_id).status == "waiting"


def test_a_changed_description_strands_no_run_and_asks_nothing_anew(its: Runs) -> None:
    run_id = asked(its)
    (question,) = questions(its, run_id)
    its.file.write_text(its.file.read_text() + "description: Another sentence.\nstarters: [Hi]\n")
    its.kit.runner.handle(run_id).decide(question.id, Decision(decision="approve"))
    its.kit.model.script(DONE)

    assert its.work(run_id) == "succeeded"
    assert changing_tools.called == ["post A"]


def test_a_version_that_does_not_name_an_agent_gets_the_answer_of_its_child_run(its: Runs) -> None:
    (its.file.parent / "helper.yaml").write_text("name: Helper\nmodel: any/model\nsystem_prompt: You help.\n")
    its.write("tools: ['agent:helper']")
    its.kit.model.script(Turn(calls=[Call(name="helper", arguments={"message": "Go."})]), Turn(text="Helped."), DONE)
    run_id = its.accept()
    assert its.work(run_id) == "waiting"
    its.write("tools: []", prompt=NEW)

    upgrade(its, run_id)
    assert its.work(run_id) == "waiting"
    assert its.row(run_id).reason == "child"
    [child] = its.kit.runner.journal.readers.runs.get(LOCAL, run_id)["children"]
    assert its.work(child["run_id"]) == "succeeded"

    assert its.work(run_id) == "succeeded"
    results = [m["content"] for m in its.kit.model.requests[-1].messages if m["role"] == "tool"]
    assert (results, its.kit.model.requests[-1].tools, its.prompt()) == (["Helped."], None, NEW)
