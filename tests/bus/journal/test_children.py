"""Child runs in the journal: a parent is woken by its last child, whichever commits meet, and leaves none behind."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from agents.governance.guardrails.guardrails import Guardrails
from bus.journal import Journal
from bus.journal.approvals import Decision
from bus.journal.controls import SET, STOP
from bus.journal.errors import DELEGATION_REFUSED, ControlsChanged
from bus.journal.log.commit import Commit
from bus.journal.log.writer import RunWriter
from bus.journal.ownership.reaper import Reaper
from bus.journal.records.parent import Parent
from bus.journal.records.steps import StepStarted
from bus.journal.states.codes import Reason
from bus.journal.states.release import Release
from bus.journal.unowned.transitions import CommitResult
from bus.loop import ProcessLoop
from bus.payloads import EndPayload
from config.database.engine import Database
from config.database.tables import events, messages, runs
from config.errors import CallboardError
from config.identity.principal import Principal
from config.ids import new_id
from config.settings import Settings
from config.tracing import span_id_of
from tests.bus.journal_harness import new_run
from tests.bus.questions import question

ME = Principal()
WAITS = Release(status="waiting", reason=Reason.CHILD)
DONE = Commit(events=[EndPayload(status="succeeded", output="fine")])


class Home:
    """A journal with runs that have children."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.loop = journal, journal.loop

    def own(self, run_id: str) -> RunWriter:
        lease = self.loop.run(self.journal.owner.claim(run_id), 30)
        assert lease is not None
        return self.journal.owner.writer(lease, lambda payload: None)

    def commit(self, writer: RunWriter, change: Commit) -> None:
        self.loop.run(writer.commit(change), 30)

    def parent(self, children: int) -> tuple[RunWriter, list[str]]:
        """Return the owner of a run with so many children, which are queued."""
        return self.below(self.journal.clients.accept(new_run()).run_id, children)

    def below(self, run_id: str, children: int) -> tuple[RunWriter, list[str]]:
        """Return the owner of a run that gets so many children."""
        writer, ids = self.own(run_id), [new_id("step") for _ in range(children)]
        started = [
            StepStarted(id=id_, kind="tool", name="helper", arguments_digest="", idempotency_key=id_, call_id=id_)
            for id_ in ids
        ]
        self.commit(writer, Commit(started=started))
        return writer, [self.delegate(writer, id_) for id_ in ids]

    def delegate(self, writer: RunWriter, step_id: str) -> str:
        """Return a new child of this step."""
        lease = writer.lease
        parent = Parent(
            child_id=new_id("run"),
            run_id=lease.run_id,
            step_id=step_id,
            credential=lease.credential,
            credential_id=lease.credential_id,
            trace_id=lease.trace_id,
            correlation_id=lease.correlation_id,
            labels=frozenset({"secret"}),
        )
        child = self.journal.owner.new_child(new_run("Go.", parent=parent))
        self.commit(writer, Commit(children=[child]))
        return child.run_id

    def ask(self, writer: RunWriter) -> str:
        """Release the run until a person has answered a call of its own; return the question's id."""
        approval = question(decisions=("approve", "reject"))
        step = StepStarted(
            id=approval.step_id,
            kind="tool",
            name=approval.name,
            arguments_digest="",
            idempotency_key="",
            call_id=approval.call_id,
        )
        self.commit(writer, Commit(started=[step], planned=[step.id]))
        release = Release(status="waiting", reason=Reason.APPROVAL, questions=(approval,))
        self.commit(writer, Commit(events=[approval.payload()], release=release))
        return approval.id

    def approve(self, run_id: str, approval_id: str) -> None:
        self.journal.clients.decide(ME, run_id, approval_id, Decision(decision="approve"), by="ann")

    def states_of(self, child: str, parent: str) -> list[str]:
        """Return the states of a child that its parent's log has, in order."""
        with self.journal.database.read() as connection:
            query = select(events.c.data_json).where(events.c.run_id == parent, events.c.type == "child")
            logged = [orjson.loads(text) for text in connection.execute(query.order_by(events.c.seq)).scalars()]
        return [event["status"] for event in logged if event["child_run_id"] == child]

    def row(self, run_id: str) -> Any:
        with self.journal.database.read() as connection:
            return connection.execute(select(runs).where(runs.c.id == run_id)).one()

    def statuses(self, run_ids: list[str]) -> list[str]:
        return [self.row(run_id).status for run_id in run_ids]


@pytest.fixture
def home(database: Database, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    loop: ProcessLoop = request.getfixturevalue("loop" if database.is_sqlite else "wide_loop")
    settings = Settings(_env_file=None, state_dir=tmp_path, redis_url=None, broker_url=None, child_runs=4)  # type: ignore[call-arg]
    journal = Journal(settings, publish=lambda message: None, guard=Guardrails, loop=loop, database=database)
    yield Home(journal)
    journal.owner.stop()
    journal.live.relay.stop()
    journal.owner.commits.close()


def test_the_last_child_queues_its_parent_once(home: Home) -> None:
    writer, children = home.parent(2)
    owners = [home.own(child) for child in children]
    home.commit(writer, Commit(release=WAITS))
    parent = writer.lease.run_id

    home.commit(owners[0], DONE)
    assert home.row(parent).status == "waiting"
    home.commit(owners[1], DONE)

    assert (home.row(parent).status, home.row(parent).reason) == ("queued", "child")
    first = home.row(children[0])
    assert (first.labels_json, first.parent_span) == ('["secret"]', span_id_of(first.parent_step))


def test_a_parent_that_is_released_behind_the_end_of_its_children_is_queued(home: Home) -> None:
    writer, [child] = home.parent(1)
    home.commit(home.own(child), DONE)

    home.commit(writer, Commit(release=WAITS))

    assert home.row(writer.lease.run_id).status == "queued"


@pytest.mark.parametrize("_", range(5))
def test_no_wake_up_is_lost_where_children_end_as_the_parent_is_released(home: Home, _: int) -> None:
    writer, children = home.parent(4)
    owners = [home.own(child) for child in children]

    with ThreadPoolExecutor(5) as pool:
        ends = [pool.submit(home.commit, owner, DONE) for owner in owners]
        ends.append(pool.submit(home.commit, writer, Commit(release=WAITS)))
        for end in ends:
            end.result(30)

    assert home.row(writer.lease.run_id).status == "queued"
    assert home.statuses(children) == ["succeeded"] * 4


@pytest.mark.parametrize("_", range(5))
def test_stops_of_a_parent_and_ends_of_its_children_do_not_lock_each_other_out(home: Home, _: int) -> None:
    writer, children = home.parent(4)
    owners = [home.own(child) for child in children[:2]]
    home.commit(writer, Commit(release=WAITS))
    parent = writer.lease.run_id

    with ThreadPoolExecutor(5) as pool:
        stop = pool.submit(home.journal.clients.control, ME, parent, STOP, by="ann")
        ends = [pool.submit(home.commit, owner, DONE) for owner in owners]
        for end in ends:
            with suppress(ControlsChanged):  # the stop came first: its owner has to answer it
                end.result(30)
        stop.result(30)

    assert home.row(parent).status == "cancelled"
    assert home.statuses(children[2:]) == ["cancelled"] * 2
    assert all(row.stop_requested or row.status == "succeeded" for row in map(home.row, children[:2]))


def test_a_stop_does_not_wait_for_the_owners_above_a_child(home: Home) -> None:
    writer, [child] = home.parent(1)
    _, [grandchild] = home.below(child, 1)

    home.journal.clients.control(ME, writer.lease.run_id, STOP, by="ann")

    assert home.statuses([writer.lease.run_id, child, grandchild]) == ["running", "running", "cancelled"]
    assert home.row(child).stop_requested
    with home.journal.database.read() as connection:
        notes = connection.execute(select(messages.c.data_json).where(messages.c.role == "error")).scalars().all()
    assert [orjson.loads(note)["content"] for note in notes] == [f"Stopped with {child}, which called it."]


def test_a_reaper_stops_the_children_that_a_dead_process_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home.journal.live, "stop_children", lambda run_id: None)
    writer, [child] = home.parent(1)
    below_writer, [grandchild] = home.below(child, 1)
    home.commit(below_writer, Commit(release=WAITS))
    home.commit(writer, Commit(release=WAITS))
    home.journal.clients.control(ME, writer.lease.run_id, STOP, by="ann")
    assert home.statuses([child, grandchild]) == ["waiting", "queued"]
    done: list[CommitResult] = []
    reaper = Reaper(home.journal.database, home.journal.settings, done.append)

    reaper.look()
    reaper.look()

    assert home.statuses([child, grandchild]) == ["cancelled"] * 2
    assert reaper.look() == []


def test_a_child_is_not_removed_before_its_parent_has_its_result(home: Home) -> None:
    writer, [child] = home.parent(1)
    home.commit(home.own(child), DONE)

    with pytest.raises(CallboardError, match=f"run '{writer.lease.run_id}' is running"):
        home.journal.readers.runs.remove(ME, [child])

    home.commit(writer, DONE)
    home.journal.readers.runs.remove(ME, [child])


def test_one_child_too_many_is_refused_and_the_parent_writes_on(home: Home) -> None:
    writer, children = home.parent(4)

    with pytest.raises(CallboardError, match="CALLBOARD_CHILD_RUNS") as refused:
        home.delegate(writer, new_id("step"))

    assert refused.value.code == DELEGATION_REFUSED.code
    assert home.statuses(children) == ["queued"] * 4
    home.commit(writer, DONE)


def test_children_have_the_priority_that_their_parent_has_then_and_may_be_set_above_it(home: Home) -> None:
    clients = home.journal.clients
    writer, [first] = home.below(clients.accept(new_run(priority="low")).run_id, 1)
    parent = writer.lease.run_id
    written = clients.control(Principal(), parent, SET, by="ann", data={"priority": "normal"})
    request = home.journal.owner.unread_controls(parent)[0]
    home.commit(writer, Commit(events=[request.answer("consumed")]))
    step = StepStarted(id="step_2", kind="tool", name="helper", arguments_digest="", idempotency_key="2", call_id="2")
    home.commit(writer, Commit(started=[step]))
    second = home.delegate(writer, "step_2")
    clients.control(Principal(), second, SET, by="ann", data={"priority": "high"})

    assert written.control_id is not None
    assert [home.row(run_id).priority for run_id in (first, parent, second)] == [1, 0, -1]


def test_a_question_and_an_answer_of_a_child_while_its_parent_is_at_work_are_written_when_the_parent_waits(
    home: Home,
) -> None:
    writer, [child, other] = home.parent(2)
    parent, approval_id = writer.lease.run_id, home.ask(home.own(child))
    assert home.states_of(child, parent) == []

    own_question = home.ask(writer)
    home.commit(home.own(other), DONE)
    assert home.states_of(child, parent) == ["waiting"]

    home.approve(parent, own_question)
    writer = home.own(parent)
    home.approve(child, approval_id)
    assert home.states_of(child, parent) == ["waiting"]
    home.commit(writer, Commit(release=WAITS))
    assert home.states_of(child, parent) == ["waiting", "queued"]
    assert home.row(parent).status == "waiting"

    home.commit(home.own(child), DONE)
    assert (home.row(parent).status, home.states_of(child, parent)) == ("queued", ["waiting", "queued", "succeeded"])


@pytest.mark.parametrize("_", range(5))
def test_a_question_is_in_the_parents_log_once_where_both_are_released_at_once(home: Home, _: int) -> None:
    writer, children = home.parent(3)
    owners = [home.own(child) for child in children]

    with ThreadPoolExecutor(4) as pool:
        releases = [pool.submit(home.ask, owner) for owner in owners]
        releases.append(pool.submit(home.commit, writer, Commit(release=WAITS)))  # type: ignore[arg-type]
        for release in releases:
            release.result(30)

    assert [home.states_of(child, writer.lease.run_id) for child in children] == [["waiting"]] * 3
