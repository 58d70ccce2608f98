"""Approvals that hold for later calls too: granted with one, bound to much, listed, ended."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy import func, select, update

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.errors import SCOPE_REFUSED, STICKY_UNKNOWN, StickyOver
from bus.journal.sticky import StickyApproval, StickyApprovals, require_valid
from config.database.tables import audit, runs, sticky_approvals
from config.identity.principal import Principal, Role
from tests.bus.journal_harness import JournalHarness
from tests.bus.questions import asks, question_before
from tests.raising import raises

ME = Principal()
ANA = Principal(id="ana", roles=frozenset({Role.APPROVER}))
BOTH = ("thread", "tool")


def offered(harness: JournalHarness, **fields: Any) -> tuple[str, str]:
    """Return a run that asks before a call and offers that an approval holds for later calls, and the question."""
    run_id = harness.accept().run_id
    open_question = question_before(**{"scopes": BOTH, "scope_s": 600} | fields)
    asks(harness.database, run_id, open_question)
    return run_id, open_question.id


def approve(harness: JournalHarness, scope: str = "thread", by: Principal = ME, **fields: Any) -> str:
    """Approve a call of a new run, and later ones; return the sticky approval's id."""
    run_id, approval_id = offered(harness, **fields)
    decide(harness.database, by, run_id, approval_id, Decision(decision="approve", scope=scope), by=by.id)
    newest = select(sticky_approvals.c.id).order_by(sticky_approvals.c.created_ms.desc(), sticky_approvals.c.id.desc())
    return str(harness.rows(newest)[0][0])


def valid(harness: JournalHarness, principal: str = "local") -> list[StickyApproval]:
    agent_id = harness.rows(select(sticky_approvals.c.agent_id))[0][0]
    digest = harness.rows(select(runs.c.definition_digest))[0][0]
    return list(StickyApprovals(harness.database).valid_of("default", principal, agent_id, digest))


def test_an_approval_with_a_scope_holds_for_later_calls_until_its_end(harness: JournalHarness) -> None:
    sticky_id = approve(harness, by=ANA, policy_version="p1")

    (approval,) = valid(harness)

    assert (approval.id, approval.scope, approval.approved_by, approval.policy_version) == (
        sticky_id,
        "thread",
        "ana",
        "p1",
    )
    assert approval.covers(approval.thread_id, "0" * 64, "p1")
    assert valid(harness, "ana") == []


@pytest.mark.parametrize(
    ("changed", "value"),
    [(0, "other"), (1, "1" * 64), (2, None), (2, "p2")],
    ids=["thread", "tool", "no policy", "another policy"],
)
def test_it_covers_no_other_call(harness: JournalHarness, changed: int, value: Any) -> None:
    approve(harness, policy_version="p1")
    (approval,) = valid(harness)
    call = [approval.thread_id, approval.tool_digest, approval.policy_version]
    call[changed] = value

    assert not approval.covers(*call)  # type: ignore[arg-type]  # one of them is another kind of text


def test_with_the_scope_tool_it_covers_other_threads(harness: JournalHarness) -> None:
    approve(harness, "tool")

    (approval,) = valid(harness)

    assert approval.covers("other", approval.tool_digest, None)


def test_the_log_and_the_audit_log_have_it(harness: JournalHarness) -> None:
    run_id, approval_id = offered(harness)
    decide(harness.database, ANA, run_id, approval_id, Decision(decision="approve", scope="tool", scope_s=60), by="ana")

    (event,) = [
        event for event in map(orjson.loads, (line.data for line in harness.lines(run_id))) if event.get("decision")
    ]
    (facts,) = harness.rows(select(audit.c.facts_json).where(audit.c.action == "approval.decided"))
    assert (event["scope"], "until" in event) == ("tool", True)
    assert (orjson.loads(facts[0])["scope"], orjson.loads(facts[0])["scope_s"]) == ("tool", 60)


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"scopes": ()}, Decision(decision="approve", scope="thread")),
        ({"scopes": ("thread",)}, Decision(decision="approve", scope="tool")),
        ({}, Decision(decision="approve", scope="for ever")),
        ({}, Decision(decision="approve", scope="thread", scope_s=601)),
        ({}, Decision(decision="approve", scope="thread", scope_s=0)),
        ({}, Decision(decision="approve", scope="thread", arguments={"order": 7})),
        ({}, Decision(decision="reject", scope="thread")),
    ],
)
def test_what_is_not_offered_is_refused_and_decides_nothing(
    harness: JournalHarness, fields: dict[str, Any], answer: Decision
) -> None:
    run_id, approval_id = offered(harness, **fields)

    with raises(SCOPE_REFUSED):
        decide(harness.database, ME, run_id, approval_id, answer, by="local")

    assert harness.run_row(run_id).status == "waiting"
    assert harness.rows(select(func.count()).select_from(sticky_approvals))[0][0] == 0


@pytest.mark.parametrize("ends", ["revoked_ms", "expires_ms"])
def test_one_that_has_ended_lets_nothing_begin(harness: JournalHarness, ends: str) -> None:
    sticky_id = approve(harness)
    with harness.database.write() as connection:
        connection.execute(update(sticky_approvals).values({ends: 1}))

    assert valid(harness) == []
    with pytest.raises(StickyOver), harness.database.write() as connection:
        require_valid(connection, [sticky_id])


def test_it_is_listed_and_ended_once(harness: JournalHarness) -> None:
    sticky_id, approvals = approve(harness, by=ANA), StickyApprovals(harness.database)

    (listed,) = approvals.page(ME)
    ended = approvals.revoke(ME, sticky_id, by="local")
    again = approvals.revoke(ANA, sticky_id, by="ana")

    assert (listed["sticky_id"], listed["approved_by"], listed["is_valid"]) == (sticky_id, "ana", True)
    assert (ended["is_valid"], ended["revoked_by"]) == (False, "local")
    assert again == ended
    assert valid(harness) == []
    revoked = select(audit.c.target_id).where(audit.c.action == "approval.revoked")
    assert [row[0] for row in harness.rows(revoked)] == [sticky_id]


@pytest.mark.parametrize("who", [Principal(id="eve"), Principal(tenant="other", roles=frozenset(Role))])
def test_a_stranger_neither_sees_nor_ends_it(harness: JournalHarness, who: Principal) -> None:
    sticky_id, approvals = approve(harness), StickyApprovals(harness.database)

    assert approvals.page(who) == []
    with raises(STICKY_UNKNOWN):
        approvals.revoke(who, sticky_id, by=who.id)

    assert len(valid(harness)) == 1
