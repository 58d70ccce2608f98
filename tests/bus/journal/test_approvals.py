"""What a run asks a person: the first answer counts, once, and the run resumes when nothing is open any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from sqlalchemy import func, select, update

from bus.identity.audit.recording import acting_with
from bus.identity.credentials import keys
from bus.identity.credentials.credential import CredentialKind
from bus.identity.credentials.key_form import KeyForm
from bus.journal.approvals import Decision, answers, form_digest, pending, use
from bus.journal.decisions.decisions import Decided, decide
from bus.journal.errors import (
    ANSWER_REFUSED,
    APPROVER_REFUSED,
    ARGUMENTS_DIFFER,
    DECISION_REFUSED,
    EDIT_REFUSED,
    IDEMPOTENCY_CONFLICT,
    ApprovalDecided,
    ApprovalOver,
    ApprovalUnknown,
    RunUnknown,
    StaleOwner,
)
from bus.journal.idempotency import IdempotencyKey
from bus.journal.log.commit import Commit
from bus.journal.queries.runs import Runs
from bus.payloads import ApprovalPayload, MessagePayload, decode
from config.database.tables import approvals, outbox, runs
from config.errors import ErrorKind
from config.identity.principal import Principal, Role
from config.ids import canonical_digest
from tests.bus.journal_harness import JournalHarness, Owner, assert_whole, cancel
from tests.bus.questions import (
    ADDRESS,
    answer_of,
    asks,
    owned_again,
    question,
    question_before,
    question_form,
    question_missing,
)
from tests.bus.racing import at_once
from tests.examples import examples
from tests.raising import raises

ME = Principal()
AGAIN = Decision(decision="run_again")
DONE = Decision(decision="take_as_done", result={"refund": 7}, message="the bank says so")
FAIL = Decision(decision="fail")
RACERS = 50
RACES = examples(20)


def waiting(harness: JournalHarness, *questions: Any) -> tuple[str, list[str]]:
    """Return a run that waits for answers, and the questions' ids."""
    run_id = harness.accept().run_id
    open_questions = questions or (question(),)
    asks(harness.database, run_id, *open_questions)
    return run_id, [open_question.id for open_question in open_questions]


def finish(harness: JournalHarness, run_id: str) -> None:
    """Resume an answered run and end it."""
    owner = Owner(harness, owned_again(harness.database, run_id))
    harness.do(owner.end())


# --- asking ---------------------------------------------------------------------------------------


def test_a_waiting_run_shows_what_it_asks_and_holds_no_lease(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)

    (approval,) = Runs(harness.database).get(ME, run_id)["approvals"]

    row = harness.run_row(run_id)
    assert (row.status, row.owner, row.lease_until) == ("waiting", None, None)
    assert approval["approval_id"] == approval_id
    assert approval["arguments"] == {"order": 1042, "amount": "88.00 EUR", "to": "Okafor & Co"}
    assert approval["decisions"] == ["run_again", "take_as_done", "fail"]


def test_a_run_that_waits_is_not_claimed(harness: JournalHarness) -> None:
    run_id, _ = waiting(harness)

    assert harness.claim(run_id) is None


def test_an_ended_run_asks_nothing_any_more(harness: JournalHarness) -> None:
    run_id, _ = waiting(harness)
    cancel(harness.database, ME, run_id, by="ann")

    assert Runs(harness.database).questions(ME, run_id) == []


# --- the first answer counts ----------------------------------------------------------------------


def test_the_last_open_question_queues_the_run_again_and_announces_it(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    before = harness.rows(select(func.count()).select_from(outbox).where(outbox.c.run_id == run_id))[0][0]

    decided = decide(harness.database, ME, run_id, approval_id, DONE, by="ann")

    row = harness.run_row(run_id)
    announced = harness.rows(select(func.count()).select_from(outbox).where(outbox.c.run_id == run_id))[0][0]
    assert (decided.decision, decided.by, decided.written.status) == ("take_as_done", "ann", "queued")
    assert (row.status, row.reason, row.detail) == ("queued", "answered", None)
    assert decided.written.wake == run_id
    assert announced == before + 1


def test_the_log_says_who_decided_what_and_stays_whole(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)

    decide(harness.database, ME, run_id, approval_id, DONE, by="ann")
    finish(harness, run_id)

    lines = harness.lines(run_id)
    events = [orjson.loads(line.data) for line in lines if line.type == "approval"]
    assert_whole(lines)
    assert [event.get("decision") for event in events] == [None, "take_as_done"]
    assert (events[1]["by"], events[1]["reason"]) == ("ann", "the bank says so")


def test_another_open_question_keeps_the_run_waiting(harness: JournalHarness) -> None:
    run_id, (first, second) = waiting(harness, question(), question("send_mail", {"to": "a@b.example"}))

    result = decide(harness.database, ME, run_id, second, AGAIN, by="ann")
    assert (result.written.status, result.written.wake) == ("waiting", None)
    with harness.database.read() as connection:
        assert [approval["approval_id"] for approval in pending(connection, run_id)] == [first]
    other = decide(harness.database, ME, run_id, first, FAIL, by="ben")

    assert (other.written.status, other.written.wake) == ("queued", run_id)


def test_a_second_answer_gets_the_first(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    decide(harness.database, ME, run_id, approval_id, AGAIN, by="ann")

    with pytest.raises(ApprovalDecided) as error:
        decide(harness.database, ME, run_id, approval_id, FAIL, by="ben")

    assert (error.value.facts["decision"], error.value.facts["by"]) == ("run_again", "ann")


def test_one_of_fifty_answers_at_once_wins(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    choices = [AGAIN, DONE, FAIL]

    def answer(number: int) -> Decided:
        return decide(harness.database, ME, run_id, approval_id, choices[number % 3], by=f"p{number}")

    done = at_once(RACERS, answer)

    (won,) = [outcome for outcome in done if isinstance(outcome, Decided)]
    lost = [outcome for outcome in done if isinstance(outcome, ApprovalDecided)]
    assert len(lost) == RACERS - 1
    assert {(error.facts["decision"], error.facts["by"]) for error in lost} == {(won.decision, won.by)}
    assert harness.kinds(run_id).count("approval") == 2
    finish(harness, run_id)
    assert_whole(harness.lines(run_id))


@pytest.mark.parametrize(("answer", "is_used_up"), [(Decision(decision="run_again"), True), (DONE, False)])
def test_only_the_answer_that_does_something_outside_is_used_up(
    harness: JournalHarness, answer: Decision, is_used_up: bool
) -> None:
    run_id, (approval_id,) = waiting(harness)
    decide(harness.database, ME, run_id, approval_id, answer, by="ann")

    with harness.database.write() as connection:
        (used,) = answers(connection, run_id).values()
        assert used.approval_id is not None
        use(connection, [used.approval_id])
    with harness.database.read() as connection:
        (left,) = answers(connection, run_id).values()

    assert (used.approval_id, used.decision) == (approval_id, answer)
    assert (left.decision is None) is is_used_up


# --- several approvers ----------------------------------------------------------------------------

ANA, BEN = (Principal(id=name, roles=frozenset({Role.APPROVER})) for name in ("ana", "ben"))
APPROVE = Decision(decision="approve")


def test_the_last_approval_that_is_needed_decides(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=2))

    first = decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana")
    (approval,) = Runs(harness.database).questions(ME, run_id)
    second = decide(harness.database, BEN, run_id, approval_id, APPROVE, by="ben")

    assert (first.written.status, second.written.status) == ("waiting", "queued")
    assert (approval["approvers"], approval["approved_by"]) == (2, ["ana"])
    assert answer_of(harness.database, run_id) == APPROVE
    events = [decode(line.data) for line in harness.lines(run_id)]
    decisions = [(event.decision, event.approved_by) for event in events if isinstance(event, ApprovalPayload)]
    assert decisions == [(None, None), (None, ["ana"]), ("approve", ["ana", "ben"])]
    finish(harness, run_id)
    assert_whole(harness.lines(run_id))


@pytest.mark.parametrize(
    ("who", "answer", "refused"),
    [
        (ME, APPROVE, APPROVER_REFUSED),
        (ANA, APPROVE, APPROVER_REFUSED),
        (BEN, Decision(decision="approve", arguments={"order": 7}), EDIT_REFUSED),
    ],
    ids=["owner", "twice", "edited"],
)
def test_an_approval_that_does_not_count_changes_nothing(
    harness: JournalHarness, who: Principal, answer: Decision, refused: ErrorKind
) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=2))
    decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana")
    before = harness.run_row(run_id)

    with raises(refused):
        decide(harness.database, who, run_id, approval_id, answer, by=who.id)

    assert harness.run_row(run_id) == before


class Keys:
    """API keys of approvers, and requests that are made with them."""

    def __init__(self, harness: JournalHarness, run_id: str, approval_id: str) -> None:
        self._harness, self._question = harness, (run_id, approval_id)

    def made(self, name: str, by: str, local: Principal = ME) -> str:
        """Return the id of a new key that acts as ``name``."""
        form, principal = KeyForm(lambda: "ab" * 32), Principal(id=name, roles=frozenset({Role.APPROVER}))
        with self._harness.database.write() as connection:
            return keys.create(connection, form, principal, by=by, local=local)[0].id

    def start_with(self, key_id: str) -> None:
        """Have the run started with a key."""
        started = update(runs).where(runs.c.id == self._question[0])
        with self._harness.database.write() as connection:
            connection.execute(started.values(principal="bot", credential=CredentialKind.KEY, credential_id=key_id))

    @contextmanager
    def used(self, key_id: str) -> Iterator[None]:
        token = acting_with.set((CredentialKind.KEY, key_id))
        try:
            yield
        finally:
            acting_with.reset(token)

    def approve(self, name: str, key_id: str, local: Principal = ME) -> str:
        """Return the run's state after an approval with a key."""
        principal = Principal(id=name, roles=frozenset({Role.APPROVER}))
        with self.used(key_id):
            decided = decide(self._harness.database, principal, *self._question, APPROVE, by=name, local=local)
        return str(decided.written.status)


def test_an_approval_by_a_key_counts_as_its_creators(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=2))
    keys = Keys(harness, run_id, approval_id)
    first = keys.made("bot", by="ana")
    with keys.used(first):
        second = keys.made("bot2", by="bot")

    assert keys.approve("bot", first) == "waiting"
    for name, key_id in (("bot2", second), ("ben", keys.made("ben", by="ana"))):
        with raises(APPROVER_REFUSED, match="approved this call already"):
            keys.approve(name, key_id)
    with raises(APPROVER_REFUSED, match="approved this call already"):
        decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana")
    with raises(APPROVER_REFUSED, match="the run is yours"):
        keys.approve("svc", keys.made("svc", by=ME.id), local=Principal(id="installation"))

    assert keys.approve("ben", keys.made("ben", by=ME.id)) == "queued"  # made at the terminal, for Ben
    (row,) = harness.rows(select(approvals.c.approved_json).where(approvals.c.id == approval_id))
    assert orjson.loads(row.approved_json) == ["ana", "ben"]


def test_who_asked_by_a_key_of_another_name_is_none_of_the_approvers(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=2))
    keys = Keys(harness, run_id, approval_id)
    keys.start_with(keys.made("bot", by="ana"))

    with raises(APPROVER_REFUSED, match="the run is yours"):
        decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana")
    with raises(APPROVER_REFUSED, match="the run is yours"):
        keys.approve("ana2", keys.made("ana2", by="ana"))

    assert keys.approve("ben", keys.made("ben", by="ben")) == "waiting"


def test_only_the_installations_own_principal_makes_keys_that_stand_for_themselves(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=3))
    keys = Keys(harness, run_id, approval_id)
    abroad = Principal(tenant="elsewhere", id=ANA.id)

    for name in ("ben", "cleo"):  # made at the terminal of an installation of another tenant
        assert keys.approve(name, keys.made(name, by=abroad.id, local=abroad), local=abroad) == "waiting"
    with keys.used(""):  # a person of this tenant with the name of that installation's principal
        key_id = keys.made("ana2", by=ANA.id, local=abroad)

    assert keys.approve("ana2", key_id, local=abroad) == "queued"
    (row,) = harness.rows(select(approvals.c.approved_json).where(approvals.c.id == approval_id))
    assert orjson.loads(row.approved_json) == ["ben", "cleo", ANA.id]


def test_one_rejection_suffices(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=2))
    decide(harness.database, ANA, run_id, approval_id, APPROVE, by="ana")

    decided = decide(harness.database, ME, run_id, approval_id, Decision(decision="reject"), by="local")

    assert decided.written.status == "queued"
    assert answer_of(harness.database, run_id).decision == "reject"


def test_of_many_approvals_at_once_as_many_count_as_are_needed(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_before(approvers=3))
    people = [Principal(id=f"p{number}", roles=frozenset({Role.APPROVER})) for number in range(8)]

    def approve(number: int) -> object:
        return decide(harness.database, people[number], run_id, approval_id, APPROVE, by=people[number].id)

    done = at_once(len(people), approve)

    assert sorted(type(outcome).__name__ for outcome in done) == ["ApprovalDecided"] * 5 + ["Decided"] * 3
    (row,) = harness.rows(select(approvals.c.approved_json).where(approvals.c.id == approval_id))
    assert len(set(orjson.loads(row.approved_json))) == 3


# --- questions with a form ------------------------------------------------------------------------

GIVEN = {"street": "Main St 7", "speed": "fast", "is_gift": False}


def said_about(harness: JournalHarness, run_id: str) -> Any:
    """Return what was said about the run's one open step."""
    with harness.database.read() as connection:
        (answer,) = answers(connection, run_id).values()
    return answer


def test_an_answer_that_fits_the_form_queues_the_run_and_reaches_the_tool(harness: JournalHarness) -> None:
    open_question = question_form()
    run_id, (approval_id,) = waiting(harness, open_question)

    decided = decide(harness.database, ME, run_id, approval_id, Decision(decision="answer", result=GIVEN), by="ann")

    answer = said_about(harness, run_id)
    assert decided.written.status == "queued"
    assert answer.given == {form_digest(open_question.reason, ADDRESS): GIVEN}
    assert (answer.decision, answer.approval_id) == (None, None)
    request, answered = [
        e for e in map(decode, (line.data for line in harness.lines(run_id))) if e.event_type == "approval"
    ]
    assert isinstance(request, ApprovalPayload)
    assert isinstance(answered, ApprovalPayload)
    assert (request.kind, request.form, answered.answer) == ("input", ADDRESS, GIVEN)
    assert answered.result_digest == canonical_digest(GIVEN)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        "Main St 7",
        GIVEN | {"speed": "light"},
        GIVEN | {"floor": 81},
        GIVEN | {"floor": "1"},
        GIVEN | {"city": "Ulm"},
        GIVEN | {"extras": ["ribbon", "card", "bag"]},
        {"street": "", "speed": "fast", "is_gift": False},
    ],
)
def test_an_answer_that_does_not_fit_the_form_changes_nothing(harness: JournalHarness, answer: Any) -> None:
    run_id, (approval_id,) = waiting(harness, question_form())
    before = harness.run_row(run_id)

    with raises(ANSWER_REFUSED):
        decide(harness.database, ME, run_id, approval_id, Decision(decision="answer", result=answer), by="ann")

    assert harness.run_row(run_id) == before


def test_missing_arguments_are_added_to_those_of_the_call(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_missing())

    decide(harness.database, ME, run_id, approval_id, Decision(decision="answer", result={"amount": 8.5}), by="ann")

    assert said_about(harness, run_id).edited == {"order": 7, "amount": 8.5}
    (answered,) = [
        e
        for e in map(decode, (line.data for line in harness.lines(run_id)))
        if isinstance(e, ApprovalPayload) and e.decision
    ]
    assert answered.arguments == {"order": 7, "amount": 8.5}
    assert answered.digest == canonical_digest({"order": 7, "amount": 8.5})


def test_given_arguments_cannot_replace_those_of_the_call(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_missing())

    arguments = {"amount": 8.5, "order": 8}

    with raises(ANSWER_REFUSED):
        decide(harness.database, ME, run_id, approval_id, Decision(decision="answer", result=arguments), by="ann")


@pytest.mark.parametrize("question_factory", [question_form, question_missing])
def test_a_question_with_a_form_can_be_declined(harness: JournalHarness, question_factory: Any) -> None:
    run_id, (approval_id,) = waiting(harness, question_factory())

    decide(harness.database, ME, run_id, approval_id, Decision(decision="reject", message="no idea"), by="ann")

    assert answer_of(harness.database, run_id).refusal == "Not done: a person rejected this call: no idea"


@pytest.mark.parametrize("decision", ["approve", "run_again", "take_as_done", "fail"])
def test_a_question_with_a_form_takes_no_other_decision(harness: JournalHarness, decision: str) -> None:
    run_id, (approval_id,) = waiting(harness, question_form())

    with raises(DECISION_REFUSED):
        decide(harness.database, ME, run_id, approval_id, Decision(decision=decision), by="ann")


def test_an_answer_changed_in_the_database_does_not_count(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question_form())
    decide(harness.database, ME, run_id, approval_id, Decision(decision="answer", result=GIVEN), by="ann")
    with harness.database.write() as connection:
        forged = func.replace(approvals.c.decision_json, "Main St 7", "Back St 9")
        connection.execute(update(approvals).values(decision_json=forged))

    assert said_about(harness, run_id).given == {}


def test_a_result_changed_in_the_database_does_not_count(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    decide(harness.database, ME, run_id, approval_id, DONE, by="ann")
    with harness.database.write() as connection:
        forged = func.replace(approvals.c.decision_json, '"refund":7', '"refund":9')
        connection.execute(update(approvals).values(decision_json=forged))

    assert said_about(harness, run_id).decision is None


def test_an_answer_about_other_arguments_than_those_shown_is_refused(harness: JournalHarness) -> None:
    open_question = question_before()
    run_id, (approval_id,) = waiting(harness, open_question)

    with raises(ARGUMENTS_DIFFER):
        decide(harness.database, ME, run_id, approval_id, Decision(decision="approve", digest="0" * 64), by="ann")

    answer = Decision(decision="approve", digest=open_question.digest)
    assert decide(harness.database, ME, run_id, approval_id, answer, by="ann").written.status == "queued"


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("principal", [Principal(id="eve"), Principal(tenant="other")])
def test_another_principals_run_looks_like_none(harness: JournalHarness, principal: Principal) -> None:
    run_id, (approval_id,) = waiting(harness)

    with pytest.raises(RunUnknown) as foreign:
        decide(harness.database, principal, run_id, approval_id, AGAIN, by="eve")
    with pytest.raises(RunUnknown) as unknown:
        decide(harness.database, principal, "run_nothere", approval_id, AGAIN, by="eve")

    assert str(foreign.value).replace(run_id, "X") == str(unknown.value).replace("run_nothere", "X")
    assert harness.run_row(run_id).status == "waiting"


def test_a_question_of_another_run_is_unknown_here(harness: JournalHarness) -> None:
    run_id, _ = waiting(harness)
    _, (elsewhere,) = waiting(harness)

    for approval_id in ("apr_nothere", elsewhere):
        with pytest.raises(ApprovalUnknown):
            decide(harness.database, ME, run_id, approval_id, AGAIN, by="ann")


def test_an_answer_that_was_not_offered_is_refused(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question(decisions=("fail",)))

    with raises(DECISION_REFUSED, match="give one of: fail"):
        decide(harness.database, ME, run_id, approval_id, AGAIN, by="ann")

    assert harness.run_row(run_id).status == "waiting"


def test_after_its_time_a_question_takes_no_answer(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness, question(expires_in_s=-1))

    with pytest.raises(ApprovalOver, match="time for an answer is over"):
        decide(harness.database, ME, run_id, approval_id, AGAIN, by="ann")

    assert harness.kinds(run_id).count("approval") == 1


def test_an_ended_run_takes_no_answer(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    cancel(harness.database, ME, run_id, by="ann")

    with pytest.raises(ApprovalOver, match="the run is over"):
        decide(harness.database, ME, run_id, approval_id, AGAIN, by="ann")

    assert_whole(harness.lines(run_id))


# --- the same request again -----------------------------------------------------------------------


def test_the_same_request_again_is_the_same_answer(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    key = IdempotencyKey(key="k", method="POST", path="/x", body_digest="a")

    first = decide(harness.database, ME, run_id, approval_id, DONE, by="ann", idempotency=key)
    finish(harness, run_id)
    again = decide(harness.database, ME, run_id, approval_id, DONE, by="ann", idempotency=key)

    assert (first.is_new, again.is_new) == (True, False)
    assert (again.decision, again.by) == (first.decision, first.by)
    assert again.written.events == ()
    assert harness.kinds(run_id).count("approval") == 2


def test_the_same_key_for_another_answer_is_refused(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    key = IdempotencyKey(key="k", method="POST", path="/x", body_digest="a")
    other = IdempotencyKey(key="k", method="POST", path="/x", body_digest="b")
    decide(harness.database, ME, run_id, approval_id, DONE, by="ann", idempotency=key)

    with raises(IDEMPOTENCY_CONFLICT):
        decide(harness.database, ME, run_id, approval_id, FAIL, by="ann", idempotency=other)


def test_a_refused_answer_uses_no_key_up(harness: JournalHarness) -> None:
    run_id, (approval_id,) = waiting(harness)
    key = IdempotencyKey(key="k", method="POST", path="/x", body_digest="a")
    with raises(DECISION_REFUSED):
        decide(harness.database, ME, run_id, approval_id, Decision(decision="maybe"), by="ann", idempotency=key)

    decided = decide(harness.database, ME, run_id, approval_id, DONE, by="ann", idempotency=key)

    assert decided.is_new


# --- against others -------------------------------------------------------------------------------


def test_a_zombie_cannot_write_once_the_fence_rose(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    harness.expire_lease(run_id)
    open_question = question()
    asks(harness.database, run_id, open_question)
    decide(harness.database, ME, run_id, open_question.id, AGAIN, by="ann")

    late = MessagePayload(role="assistant", content="late", message_id="msg_9")
    with pytest.raises(StaleOwner):
        harness.do(owner.writer.commit(Commit(events=[late])))

    finish(harness, run_id)
    assert "late" not in b"".join(line.data for line in harness.lines(run_id)).decode()
    assert_whole(harness.lines(run_id))


def test_what_a_zombie_streamed_and_never_sealed_is_declared_by_the_answer(harness: JournalHarness) -> None:
    owner = harness.own()
    run_id = owner.lease.run_id
    harness.do(owner.say("never ", "sealed"))
    harness.expire_lease(run_id)
    open_question = question()
    asks(harness.database, run_id, open_question)

    decide(harness.database, ME, run_id, open_question.id, AGAIN, by="ann")
    finish(harness, run_id)

    assert_whole(harness.lines(run_id))
