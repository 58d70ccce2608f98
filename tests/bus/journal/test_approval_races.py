"""An approval that eight processes answer and use at once: one answer counts, and one call begins by it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from config.database.tables import approvals
from config.ids import canonical_digest
from tests.bus.journal.test_approvals import ME
from tests.bus.journal_harness import JournalHarness, cancel
from tests.bus.questions import REFUND, asks, question_before
from tests.processes import ROOT

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]

RACERS = 8
Race = Callable[..., list[tuple[str, str | None]]]
EDITED = {"order": 7}
APPROVE, EDIT, REJECT = {"decision": "approve"}, {"decision": "approve", "arguments": EDITED}, {"decision": "reject"}


@pytest.fixture(scope="module")
def decider() -> Iterator[subprocess.Popen[str]]:
    """The process that forks the racers of all tests: it imports what they need once."""
    command = [sys.executable, "-m", "tests.bus.decider"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def race(harness: JournalHarness, decider: subprocess.Popen[str]) -> Race:
    """Let a process for each of some answers answer at once.

    Return what each answer was, and the call that each began.
    """
    url = harness.database.engine.url.render_as_string(hide_password=False)

    def race(run_id: str, approval_id: str, *requests: dict[str, Any]) -> list[tuple[str, str | None]]:
        ids = {"run_id": run_id, "approval_id": approval_id}
        tasks = [
            {"who": f"p{number}", "roles": ["approver"], **ids, **request} for number, request in enumerate(requests)
        ]
        assert decider.stdin is not None
        assert decider.stdout is not None
        decider.stdin.write(orjson.dumps([url, tasks]).decode() + "\n")
        decider.stdin.flush()
        return [tuple(load) for load in orjson.loads(decider.stdout.readline())]

    return race


def waiting(harness: JournalHarness, **fields: Any) -> tuple[str, str]:
    run_id, open_question = harness.accept().run_id, question_before(**fields)
    asks(harness.database, run_id, open_question)
    return run_id, open_question.id


def used(harness: JournalHarness, approval_id: str) -> Any:
    (row,) = harness.rows(select(approvals).where(approvals.c.id == approval_id))
    return row


@pytest.mark.parametrize("round_", range(2))
def test_one_of_eight_approvals_counts_and_is_used_once(harness: JournalHarness, race: Race, round_: int) -> None:
    run_id, approval_id = waiting(harness)

    done = race(run_id, approval_id, *[{"answer": APPROVE}] * RACERS)

    assert Counter(decision for decision, _ in done) == {"approve": 1, "approval_decided": RACERS - 1}
    assert [call for _, call in done if call is not None] == [canonical_digest(REFUND)]
    assert used(harness, approval_id).used_ms is not None


@pytest.mark.parametrize("round_", range(2))
def test_what_begins_is_what_was_approved(harness: JournalHarness, race: Race, round_: int) -> None:
    run_id, approval_id = waiting(harness)
    requests = [{"answer": answer} for answer in (APPROVE, EDIT, REJECT, APPROVE, EDIT, REJECT, EDIT, REJECT)]

    done = race(run_id, approval_id, *requests)

    (winner,) = [number for number, (decision, _) in enumerate(done) if decision in ("approve", "reject")]
    expected = {
        "approve": [canonical_digest(EDITED if "arguments" in requests[winner]["answer"] else REFUND)],
        "reject": [],
    }
    assert [call for _, call in done if call is not None] == expected[done[winner][0]]


def test_the_same_request_from_eight_processes_is_one_answer(harness: JournalHarness, race: Race) -> None:
    run_id, approval_id = waiting(harness)

    done = race(run_id, approval_id, *[{"who": "ana", "answer": APPROVE, "key": "k"}] * RACERS)

    assert {decision for decision, _ in done} == {"approve"}
    assert len([call for _, call in done if call is not None]) == 1
    assert harness.kinds(run_id).count("approval") == 2


@pytest.mark.parametrize("roles", [[], ["operator"]])
def test_the_wrong_role_begins_nothing(harness: JournalHarness, race: Race, roles: list[str]) -> None:
    run_id, approval_id = waiting(harness)

    done = race(run_id, approval_id, *[{"roles": roles, "answer": APPROVE}] * RACERS)

    assert {decision for decision, _ in done} <= {"run_unknown", "forbidden"}
    assert [call for _, call in done if call is not None] == []


def test_after_its_time_no_answer_counts(harness: JournalHarness, race: Race) -> None:
    run_id, approval_id = waiting(harness, expires_in_s=-1)

    done = race(run_id, approval_id, *[{"answer": APPROVE}] * RACERS)

    assert set(done) == {("approval_over", None)}


def test_after_a_stop_no_answer_counts(harness: JournalHarness, race: Race) -> None:
    run_id, approval_id = waiting(harness)
    cancel(harness.database, ME, run_id, by="ann")

    done = race(run_id, approval_id, *[{"answer": APPROVE}] * RACERS)

    assert set(done) == {("approval_over", None)}
    assert used(harness, approval_id).used_ms is None


def test_arguments_changed_in_the_database_begin_nothing(harness: JournalHarness, race: Race) -> None:
    run_id, approval_id = waiting(harness)
    with harness.database.write() as connection:
        connection.execute(update(approvals).where(approvals.c.id == approval_id).values(digest="0" * 64))

    done = race(run_id, approval_id, {"answer": APPROVE})

    assert done == [("approve", "another call")]
