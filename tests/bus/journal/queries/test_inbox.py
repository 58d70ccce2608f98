"""The open questions of all runs: a principal gets those that it may answer, in pages."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.queries.runs import Runs
from config.database.tables import approvals
from config.identity.principal import Principal, Role
from tests.bus.journal_harness import JournalHarness, cancel
from tests.bus.questions import asks, question, question_before

ANA = Principal(id="ana")
OTHERS = {
    "viewer": Principal(id="vic", roles=frozenset({Role.VIEWER})),
    "operator": Principal(id="olga", roles=frozenset({Role.OPERATOR})),
    "approver": Principal(id="ada", roles=frozenset({Role.APPROVER})),
    "admin": Principal(id="root", roles=frozenset({Role.ADMIN})),
    "another": Principal(id="ben"),
    "other tenant": Principal(tenant="acme", id="ana", roles=frozenset(Role)),
    "other agent": Principal(id="ana", agents=frozenset({"another"})),
}


def inbox(harness: JournalHarness, principal: Principal) -> list[str]:
    approvals, _ = Runs(harness.database).inbox(principal)
    return [approval["approval_id"] for approval in approvals]


def waiting(harness: JournalHarness, principal: Principal = ANA, *, is_private: bool = False) -> tuple[str, str]:
    """Return a run that waits for an approval, and the question's id."""
    run_id, open_question = harness.accept(principal=principal, is_private=is_private).run_id, question_before()
    asks(harness.database, run_id, open_question)
    return run_id, open_question.id


def test_a_question_is_listed_with_its_run(harness: JournalHarness) -> None:
    run_id, approval_id = waiting(harness)

    ((approval,), is_cut) = Runs(harness.database).inbox(ANA)

    assert (approval["approval_id"], approval["run_id"], approval["kind"], approval["principal"]) == (
        approval_id,
        run_id,
        "call",
        "ana",
    )
    assert approval | Runs(harness.database).questions(ANA, run_id)[0] == approval
    assert not is_cut


@pytest.mark.parametrize(
    ("who", "sees_shared", "sees_private"),
    [
        ("viewer", False, False),
        ("operator", False, False),
        ("approver", True, False),
        ("admin", True, True),
        ("another", False, False),
        ("other tenant", False, False),
        ("other agent", False, False),
    ],
)
def test_questions_of_others_are_for_those_who_may_decide(
    harness: JournalHarness, who: str, sees_shared: bool, sees_private: bool
) -> None:
    (_, shared), (_, private) = waiting(harness), waiting(harness, is_private=True)

    assert inbox(harness, OTHERS[who]) == [*([private] if sees_private else []), *([shared] if sees_shared else [])]
    assert inbox(harness, ANA) == [private, shared]


def test_what_is_answered_or_over_is_not_listed(harness: JournalHarness) -> None:
    (decided, approval_id), (stopped, _), (_, still) = (waiting(harness) for _ in range(3))

    decide(harness.database, ANA, decided, approval_id, Decision(decision="reject"), by="ana")
    cancel(harness.database, ANA, stopped, by="ana")

    assert inbox(harness, ANA) == [still]


def test_pages_join_also_within_one_millisecond(harness: JournalHarness) -> None:
    ids = sorted((waiting(harness)[1] for _ in range(5)), reverse=True)
    with harness.database.write() as connection:
        connection.execute(update(approvals).values(created_ms=5))
    approval_ids: list[str] = []
    before: str | None = None
    while True:
        page, _ = Runs(harness.database).inbox(
            ANA, limit=2, before_ms=5 if before is not None else None, before_id=before or ""
        )
        if not page:
            break
        approval_ids += [approval["approval_id"] for approval in page]
        before = approval_ids[-1]

    assert approval_ids == ids


def test_a_page_ends_where_the_arguments_reach_a_megabyte(harness: JournalHarness) -> None:
    for _ in range(3):
        asks(harness.database, harness.accept(principal=ANA).run_id, question(arguments={"text": "x" * 600_000}))

    approvals, is_cut = Runs(harness.database).inbox(ANA)

    assert (len(approvals), is_cut) == (2, True)
