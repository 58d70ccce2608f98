"""What principals with roles reach through the journal: runs, threads, controls, answers and removals of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bus.identity.errors import FORBIDDEN
from bus.journal.approvals import Decision
from bus.journal.controls import STOP
from bus.journal.decisions.decisions import decide
from bus.journal.errors import THREAD_OF_OTHER_AGENT, ApprovalUnknown, RunUnknown, ThreadUnknown
from bus.journal.mailbox.control import control
from bus.journal.paging import ANY_OWNER
from bus.journal.queries.runs import Runs
from bus.journal.queries.threads import Threads
from bus.journal.retention.removal import remove_runs, remove_threads
from config.identity.principal import Principal, Role, Verb
from config.ids import new_id
from tests.bus.ended_runs import ended
from tests.bus.journal_harness import JournalHarness
from tests.raising import raises

ANA = Principal(tenant="acme", id="ana")
VIEWER, OPERATOR, APPROVER, ADMIN = (Principal(tenant="acme", id=role, roles=frozenset({role})) for role in Role)
FOREIGN = Principal(tenant="zeta", id="ana", roles=frozenset(Role))
BLIND = [Principal(tenant="acme", id="ben"), FOREIGN, Principal(tenant="acme", id="ana", agents=frozenset({"other"}))]


def seen(harness: JournalHarness, principal: Principal) -> set[str]:
    """Return the runs that every query about several runs shows."""
    run_ids = {run["run_id"] for run in Runs(harness.database).newest(principal)}
    assert {run["run_id"] for run in Runs(harness.database).page(principal)[0]} == run_ids
    assert {run["run_id"] for run in Runs(harness.database).board(principal).runs} == run_ids
    assert {run.run_id for run in Runs(harness.database).explain(principal)} == run_ids
    return run_ids


def test_lists_have_the_runs_that_the_principal_sees(harness: JournalHarness) -> None:
    shared = harness.accept(principal=ANA).run_id
    private = harness.accept(principal=ANA, is_private=True).run_id

    for principal in (ANA, ADMIN):
        assert seen(harness, principal) == {shared, private}
    for principal in (VIEWER, OPERATOR, APPROVER):
        assert seen(harness, principal) == {shared}
    for principal in BLIND:
        assert seen(harness, principal) == set()


@pytest.mark.parametrize("blind", BLIND, ids=["principal", "tenant", "agent"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda harness, who, run_id: Runs(harness.database).get(who, run_id),
        lambda harness, who, run_id: Runs(harness.database).row(who, run_id),
        lambda harness, who, run_id: Runs(harness.database).bounds(who, run_id),
        lambda harness, who, run_id: Runs(harness.database).questions(who, run_id),
        lambda harness, who, run_id: control(harness.database, who, run_id, STOP, by="x"),
        lambda harness, who, run_id: decide(harness.database, who, run_id, "apr_1", Decision(decision="fail"), by="x"),
        lambda harness, who, run_id: remove_runs(harness.database, who, [run_id]),
    ],
)
def test_a_run_that_is_not_seen_is_unknown(
    harness: JournalHarness, ask: Callable[[JournalHarness, Principal, str], object], blind: Principal
) -> None:
    run_id = harness.accept(principal=ANA).run_id

    with pytest.raises(RunUnknown) as foreign:
        ask(harness, blind, run_id)
    with pytest.raises(RunUnknown) as unknown:
        ask(harness, blind, "run_none")

    assert str(foreign.value) == str(unknown.value).replace("run_none", run_id)


def test_a_run_that_is_seen_is_controlled_by_those_that_may(harness: JournalHarness) -> None:
    run_id = harness.accept(principal=ANA).run_id

    for principal in (VIEWER, APPROVER):
        with raises(FORBIDDEN):
            control(harness.database, principal, run_id, STOP, by=principal.id)
    assert control(harness.database, OPERATOR, run_id, STOP, by="operator").status == "cancelled"


def test_a_question_is_answered_by_those_that_may(harness: JournalHarness) -> None:
    run_id, answer = harness.accept(principal=ANA).run_id, Decision(decision="fail")

    for principal in (VIEWER, OPERATOR):
        with raises(FORBIDDEN):
            decide(harness.database, principal, run_id, "apr_1", answer, by=principal.id)
    for principal in (ANA, APPROVER, ADMIN):
        with pytest.raises(ApprovalUnknown):
            decide(harness.database, principal, run_id, "apr_1", answer, by=principal.id)


def test_an_operator_removes_what_it_sees_and_a_viewer_nothing(harness: JournalHarness) -> None:
    run_id = ended(harness, principal=ANA, thread_id="talk").lease.run_id

    with raises(FORBIDDEN, match="you may not stop or delete this run;"):
        remove_runs(harness.database, VIEWER, [run_id])
    with raises(FORBIDDEN, match=f"delete {run_id};"):
        remove_runs(harness.database, VIEWER, [run_id, run_id])
    with raises(FORBIDDEN, match="delete this thread;"):
        remove_threads(harness.database, VIEWER, ["talk"], "ana")
    with pytest.raises(ThreadUnknown):
        remove_threads(harness.database, OPERATOR, ["talk"])
    remove_runs(harness.database, OPERATOR, [run_id])
    remove_threads(harness.database, OPERATOR, ["talk"], "ana")
    assert Threads(harness.database).newest(ANA) == []


def test_a_thread_of_another_is_found_under_its_owners_name(harness: JournalHarness) -> None:
    harness.accept("of ana", principal=ANA, thread_id="talk")
    harness.accept("of viewer", principal=VIEWER, thread_id="talk")
    threads = Threads(harness.database)

    assert threads.get(VIEWER, "talk")["title"] == "of viewer"
    assert threads.get(VIEWER, "talk", owner="ana")["title"] == "of ana"
    assert len(threads.messages(VIEWER, "talk", owner="ana")) == 1
    assert [thread["principal"] for thread in threads.newest(VIEWER)] == ["viewer"]
    assert {thread["principal"] for thread in threads.newest(VIEWER, owner=ANY_OWNER)} == {"ana", "viewer"}
    for principal in (*BLIND[:2], ANA):
        with pytest.raises(ThreadUnknown):
            threads.get(principal, "talk", owner="viewer")


def test_a_private_run_makes_its_thread_and_what_follows_private(harness: JournalHarness) -> None:
    first = harness.accept(principal=ANA, thread_id="talk").run_id
    harness.accept(principal=ANA, thread_id="talk", is_private=True)
    harness.accept(principal=ANA, thread_id="talk")

    assert seen(harness, VIEWER) == {first}
    assert len(seen(harness, ADMIN)) == 3
    with pytest.raises(ThreadUnknown):
        Threads(harness.database).get(VIEWER, "talk", owner="ana")


def test_a_credential_for_one_agent_does_not_continue_a_thread_of_another(harness: JournalHarness) -> None:
    harness.accept(principal=ANA, thread_id="talk")
    narrow = Principal(tenant="acme", id="ana", agents=frozenset({"other"}), verbs=frozenset({Verb.START}))

    with raises(THREAD_OF_OTHER_AGENT):
        harness.accept(principal=narrow, thread_id="talk", agent_id="other")

    assert len(Threads(harness.database).messages(ANA, "talk")) == 1


def test_a_credential_for_one_agent_learns_of_no_thread_of_another_by_its_id(harness: JournalHarness) -> None:
    narrow = Principal(tenant="acme", id="ana", agents=frozenset({"other"}))
    of_other = harness.accept(principal=ANA).thread_id
    of_nobody = new_id("thr")

    answers = []
    for thread_id in (of_other, of_nobody):
        with pytest.raises(ThreadUnknown) as refusal:
            harness.accept(principal=narrow, thread_id=thread_id, agent_id="other")
        answers.append(str(refusal.value).replace(thread_id, ""))

    assert answers[0] == answers[1]


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_credential_for_one_agent_does_not_reach_a_thread_in_which_another_ran(
    harness: JournalHarness, is_removed: bool
) -> None:
    narrow = Principal(tenant="acme", id="ana", agents=frozenset({"one"}))
    threads = Threads(harness.database)
    ended(harness, principal=ANA, thread_id="talk", agent_id="one")
    assert threads.get(narrow, "talk")["agent"] == "one"
    by_two = [ended(harness, principal=ANA, thread_id="talk", agent_id="two") for _ in range(2)]
    if is_removed:  # their messages stay
        remove_runs(harness.database, ANA, [owner.lease.run_id for owner in by_two])

    assert threads.newest(narrow) == []
    for ask in (threads.get, threads.messages):
        with pytest.raises(ThreadUnknown):
            ask(narrow, "talk")
    with pytest.raises(ThreadUnknown):
        remove_threads(harness.database, narrow, ["talk"])
    with raises(THREAD_OF_OTHER_AGENT):
        harness.accept(principal=narrow, thread_id="talk", agent_id="one")
    assert len(threads.get(ANA, "talk")["runs"]) == (1 if is_removed else 3)
