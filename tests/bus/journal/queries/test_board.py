"""The board with many runs: exact counts, and of each group those to look at."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import update

from bus.journal.approvals import Decision
from bus.journal.decisions.decisions import decide
from bus.journal.queries.board import DAY_MS, MOST_RUNS, board_rows
from bus.journal.queries.runs import Runs
from config.database.tables import approvals, runs
from config.identity.principal import Principal, Role
from tests.bus.crowd import ASKS, Crowd
from tests.bus.journal_harness import JournalHarness, cancel
from tests.bus.questions import asks, question, question_before

ME = Principal()


@pytest.fixture
def crowd(harness: JournalHarness) -> Crowd:
    return crowd_of(harness)


def crowd_of(harness: JournalHarness) -> Crowd:
    """Return what adds runs to a board without any: the one that they are like is another tenant's."""
    like = harness.accept(principal=Principal(tenant="template")).run_id
    return Crowd(harness.database, like, tenant=ME.tenant)


@pytest.mark.parity
def test_counts_are_exact_and_questions_are_shown_with_5000_open_runs(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("running", 200, status="running")
    crowd.add("queued", 4290, status="queued")
    crowd.add("task", 3, status="waiting", reason="task")
    crowd.add("asks", 507, **ASKS)

    board = Runs(harness.database).board(ME)

    assert board.counts == {"queued": 4290, "running": 200, "waiting": 510, "questions": 507, "failed": 0}
    names = [run["run_id"].split("-")[0] for run in board.runs]
    assert Counter(names) == {"asks": MOST_RUNS, "running": MOST_RUNS, "task": 3, "queued": MOST_RUNS}
    assert names[:MOST_RUNS] == ["asks"] * MOST_RUNS


def test_shows_who_waits_longest_and_what_runs_newest(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("running", 3, status="running")
    crowd.add("queued", 3, status="queued")
    crowd.add("asks", 3, **ASKS)

    run_ids = [run["run_id"] for run in Runs(harness.database).board(ME).runs]

    assert run_ids == [
        *("asks-3", "asks-2", "asks-1"),
        *("running-1", "running-2", "running-3"),
        *("queued-3", "queued-2", "queued-1"),
    ]


def test_failures_of_a_day_stay_however_many_runs_succeed(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("failed", 2, 3_600_000, status="failed", error_code="model_failed")
    crowd.add("dead", 1, DAY_MS - 60_000, status="dead", error_code="crashed")
    crowd.add("old", 1, DAY_MS + 60_000, status="failed", error_code="model_failed")
    crowd.add("succeeded", 500, 0, status="succeeded")
    crowd.add("stopped", 1, 0, status="cancelled", reason="stopped")

    board = Runs(harness.database).board(ME)

    counter = Counter(run["run_id"].split("-")[0] for run in board.runs)
    assert (counter["failed"], counter["dead"], counter["old"], counter["stopped"]) == (2, 1, 0, 1)
    assert counter["succeeded"] == MOST_RUNS - 1
    assert board.counts["failed"] == 3


def test_counts_what_the_principal_sees_alone(harness: JournalHarness, crowd: Crowd) -> None:
    crowd.add("mine", 2, status="running")
    crowd.add("hers", 3, status="running", principal="ann")
    crowd.add("failed", 1, 0, status="failed", error_code="model_failed", principal="ann")
    crowd.add("foreign", 4, status="running", tenant="acme")

    mine, hers = (Runs(harness.database).board(Principal(id=name)).counts for name in (ME.id, "ann"))

    assert (mine["running"], mine["failed"]) == (2, 0)
    assert (hers["running"], hers["failed"]) == (3, 1)


@pytest.mark.parity
def test_the_work_does_not_grow_with_the_runs_that_have_ended(small_harness: JournalHarness) -> None:
    crowd, work = crowd_of(small_harness), []
    crowd.add("asks", 3, **ASKS)
    crowd.add("queued", 3, status="queued")
    for number in (300, 3000):
        crowd.add(f"ended{number}", number, DAY_MS + 1, status="succeeded")
        crowd.add(f"failed{number}", number, DAY_MS + 1, status="failed", error_code="model_failed")
        steps = itertools.count()
        with small_harness.database.read() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.set_progress_handler(lambda steps=steps: next(steps) < 0, 1)
            board_rows(connection, ME, [runs.c.id])
            raw.set_progress_handler(None, 0)
        work.append(next(steps))

    assert work[1] < 1.1 * work[0]


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
