"""Links to a question for one person: signed, valid once and until a time."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

from bus.identity.errors import FORBIDDEN
from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import Decided, decide
from bus.journal.decisions.links import ApprovalLinks
from bus.journal.errors import (
    DECISION_REFUSED,
    LINK_NOT_YOURS,
    LINK_OVER,
    LINK_UNKNOWN,
    ApprovalDecided,
    ApprovalOver,
    ApprovalUnknown,
    RunUnknown,
)
from config.database.tables import approval_links, approvals, audit
from config.identity.principal import Principal, Role
from tests.bus.journal_harness import JournalHarness, cancel
from tests.bus.questions import REFUND, asks, question_before
from tests.bus.racing import at_once
from tests.raising import raises

ME = Principal()
ANA = Principal(id="ana", roles=frozenset({Role.APPROVER}))
APPROVE = Decision(decision="approve")


def waiting(harness: JournalHarness) -> tuple[str, str]:
    run_id, open_question = harness.accept().run_id, question_before()
    asks(harness.database, run_id, open_question)
    return run_id, open_question.id


def made(harness: JournalHarness, for_whom: str = "ana", **options: Any) -> tuple[ApprovalLinks, str, str, str]:
    """Return a link to a new question for this person: what opens it, its token, and the question."""
    run_id, approval_id = waiting(harness)
    links = ApprovalLinks(harness.database)
    token = str(links.make(ME, run_id, approval_id, for_whom=for_whom, **options)["token"])
    return links, token, run_id, approval_id


def test_its_person_reads_the_question_often_and_answers_once(harness: JournalHarness) -> None:
    links, token, run_id, approval_id = made(harness)

    for _ in range(3):  # a scanner of mail follows links too
        link, approval = links.open(ANA, token)
    decided = decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana", link=link)

    assert (approval["arguments"], approval["run_id"], approval["principal"]) == (REFUND, run_id, "local")
    assert (decided.decision, decided.by) == ("approve", "ana")
    with raises(LINK_OVER, match="used before"):
        links.open(ANA, token)
    actions = harness.rows(select(audit.c.action).order_by(audit.c.number))
    assert [row[0] for row in actions if row[0].startswith("approval")] == ["approval.linked", "approval.decided"]


@pytest.mark.parametrize(
    "who", [ME, Principal(id="ben", roles=frozenset(Role)), Principal(tenant="other", id="ana", roles=frozenset(Role))]
)
def test_another_person_is_refused(harness: JournalHarness, who: Principal) -> None:
    links, token, _, _ = made(harness)

    with raises(LINK_NOT_YOURS):
        links.open(who, token)

    links.open(ANA, token)


def test_it_grants_no_right(harness: JournalHarness) -> None:
    links, token, _, _ = made(harness)

    with raises(FORBIDDEN):
        links.open(Principal(id="ana"), token)


@pytest.mark.parametrize(
    "changed", ["", "lnk_none.00", "{id}", "{id}.", "{id}.{mac}0", "{mac}.{id}", "x{id}.{mac}", "\u202e", "{id}.\u00e9"]
)
def test_a_forged_link_is_unknown(harness: JournalHarness, changed: str) -> None:
    links, token, _, _ = made(harness)
    link_id, mac = token.split(".")

    with raises(LINK_UNKNOWN):
        links.open(ANA, changed.format(id=link_id, mac=mac))


@pytest.mark.parametrize(
    "column", ["principal", "approval_id", "run_id", "digest", "tool_digest", "expires_ms", "tenant"]
)
def test_a_link_changed_in_the_database_is_unknown(harness: JournalHarness, column: str) -> None:
    links, token, _, _ = made(harness)
    with harness.database.write() as connection:
        connection.execute(update(approval_links).values({column: 2**50 if column == "expires_ms" else "other"}))

    with raises(LINK_UNKNOWN):
        links.open(ANA, token)


def test_after_its_time_it_is_over(harness: JournalHarness) -> None:
    links, token, _, _ = made(harness, seconds=-1)

    with raises(LINK_OVER, match="expired"):
        links.open(ANA, token)


@pytest.mark.parametrize("ends", ["answered", "stopped"])
def test_it_is_over_with_its_question(harness: JournalHarness, ends: str) -> None:
    links, token, run_id, approval_id = made(harness)
    link, _ = links.open(ANA, token)
    if ends == "answered":
        decide(harness.database, ME, run_id, approval_id, APPROVE, by="local")
    else:
        cancel(harness.database, ME, run_id, by="ann")

    with raises(LINK_OVER):
        links.open(ANA, token)
    with pytest.raises((ApprovalDecided, ApprovalOver)):
        decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana", link=link)


@pytest.mark.parametrize("column", ["digest", "tool_digest"])
def test_a_question_that_has_changed_takes_no_answer_by_it(harness: JournalHarness, column: str) -> None:
    links, token, run_id, approval_id = made(harness)
    link, _ = links.open(ANA, token)
    with harness.database.write() as connection:
        connection.execute(update(approvals).values({column: "1" * 64}))

    with raises(LINK_OVER, match="changed"):
        decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana", link=link)

    assert harness.run_row(run_id).status == "waiting"


def test_a_refused_answer_does_not_use_it_up(harness: JournalHarness) -> None:
    links, token, run_id, approval_id = made(harness)
    link, _ = links.open(ANA, token)
    with raises(DECISION_REFUSED):
        decide(harness.database, ANA, run_id, approval_id, Decision(decision="maybe"), by="ana", link=link)

    assert decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana", link=link).decision == "approve"


def test_of_many_answers_by_it_at_once_one_counts(harness: JournalHarness) -> None:
    links, token, run_id, approval_id = made(harness)
    link, _ = links.open(ANA, token)

    done = at_once(8, lambda _: decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana", link=link))

    assert len([outcome for outcome in done if isinstance(outcome, Decided)]) == 1


@pytest.mark.parametrize(("who", "refused"), [(Principal(id="eve"), RunUnknown), (ANA, None)])
def test_who_may_answer_may_make_one(harness: JournalHarness, who: Principal, refused: type[Exception] | None) -> None:
    run_id, approval_id = waiting(harness)
    links = ApprovalLinks(harness.database)

    if refused is None:
        assert links.make(who, run_id, approval_id, for_whom="ben")["principal"] == "ben"
    else:
        with pytest.raises(refused):
            links.make(who, run_id, approval_id, for_whom="ben")


def test_there_is_none_to_what_is_not_open(harness: JournalHarness) -> None:
    run_id, approval_id = waiting(harness)
    links = ApprovalLinks(harness.database)
    with pytest.raises(ApprovalUnknown):
        links.make(ME, run_id, "apr_none", for_whom="ana")
    decide(harness.database, ME, run_id, approval_id, APPROVE, by="local")

    with pytest.raises(ApprovalDecided):
        links.make(ME, run_id, approval_id, for_whom="ana")
