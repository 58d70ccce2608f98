"""Ends without an owner are delivered to the observers once; what was not delivered is not marked as delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from sqlalchemy import select, update

import bus.journal.unowned.runs
from agents.handle import RunHandle
from agents.process import Process, current_process
from agents.runner import Runner
from bus.identity.audit.chain import entries
from bus.identity.audit.recording import note_settings
from bus.journal.approvals import Decision
from bus.payloads import EndPayload, Payload
from config.database.errors import DatabaseBusy, DatabaseDamaged
from config.database.migrate import migrate
from config.database.tables import audit, runs
from config.identity.principal import Principal
from config.settings import Settings
from handlers.worker.maintenance import deliver_undelivered
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import drain
from tests.agents.governance.engine.engine_server import EngineServer
from tests.bus.identity.audit.test_chain import tamper
from tests.bus.journal_harness import cancel, fire_timers, lose_owner
from tests.bus.questions import asks, question

RECEIVED: list[tuple[str, Payload]] = []
"""What the observer of these tests received, with the run's id."""


class Witness(AgentObserver):
    """Remembers what it received, on the thread that delivers."""

    inline = True
    pinned = True

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        RECEIVED.append((context.run_id, payload))


WITNESS = f"{__name__}:{Witness.__name__}"


class MaintenanceHarness:
    """A worker's process without its loops: it looks after ends when a test says so."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.process: Process = current_process()
        self.database = self.process.journal.database

    def run(self, *observers: str) -> RunHandle:
        """Return a queued run with these observers, or with the one of these tests."""
        return self.runner.run("Hello", "tester", detached=True, observers=observers or (WITNESS,))

    def ended(self, *observers: str) -> str:
        """Return a run that was stopped before it had an owner."""
        handle = self.run(*observers)
        cancel(self.database, Principal(), handle.run_id, "ann")
        return handle.run_id

    def look(self) -> int:
        return deliver_undelivered(self.process)

    def expire_lease(self) -> None:
        """Let the leases expire, also those of processes that took ends to deliver them."""
        with self.database.write() as connection:
            connection.execute(update(runs).where(runs.c.lease_until.is_not(None)).values(lease_until=0))

    def row(self, run_id: str) -> Any:
        with self.database.read() as connection:
            return connection.execute(select(runs).where(runs.c.id == run_id)).one()

    def logged(self) -> str:
        """Return the lines of the shipped logger."""
        assert drain(20) == []
        return "".join(file.read_text() for file in (self.runner.settings.state / "logs").glob("*.log"))


def ends_received(run_id: str) -> int:
    return sum(of == run_id and isinstance(payload, EndPayload) for of, payload in RECEIVED)


@pytest.fixture
def maintenance(each_database_url: str, settings: Settings, tmp_path: Path) -> Iterator[MaintenanceHarness]:
    """A worker's process over each database."""
    RECEIVED.clear()
    ours = settings.model_copy(
        update={"agents_dir": str(tmp_path / "agents"), "database_url": each_database_url, "lease_s": 60.0}
    )
    migrate(ours)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "tester.yaml").write_text(
        "name: Tester\nmodel: demo/instant\nsystem_prompt: You are a test.\n"
    )
    runner = Runner.open(ours)
    yield MaintenanceHarness(runner)
    runner.close()


def test_the_settings_of_a_worker_are_recorded_when_they_changed(maintenance: MaintenanceHarness) -> None:
    before = maintenance.runner.settings
    changed = before.model_copy(update={"slots": 7, "redis_url": "redis://:hunter2hunter2@host/0"})

    for settings in (before, before, changed, changed):
        note_settings(maintenance.database, settings, "worker")

    first, second = entries(maintenance.database, "default")
    assert (first.action, first.target, first.target_id) == ("settings.changed", "process", f"worker@{gethostname()}")
    assert first.facts["state"]["lease_s"] == "60.0"
    assert second.facts["changed"] == ["redis_url", "slots"]
    assert second.facts["state"]["slots"] == 7
    assert "hunter2" not in second.line()


def test_recorded_settings_say_how_callers_authenticate_and_differ_where_long_ones_do(
    maintenance: MaintenanceHarness,
) -> None:
    before = maintenance.runner.settings
    groups = ",".join(f"group-{number}=viewer" for number in range(40))
    first = before.model_copy(update={"auth": "required", "oidc_roles": groups})
    second = first.model_copy(update={"oidc_roles": f"{groups},staff=admin"})

    for settings in (first, second):
        note_settings(maintenance.database, settings, "web")

    entry, other = entries(maintenance.database, "default")
    assert entry.facts["state"]["auth"] == "required"
    assert entry.facts["state"]["oidc_roles"].startswith("group-0=viewer,group-1=viewer")
    assert other.facts["changed"] == ["oidc_roles"]


@pytest.mark.parametrize("facts", ["no JSON", "[]", '{"state": 5}', "{}"])
def test_a_changed_entry_does_not_keep_a_process_from_starting(maintenance: MaintenanceHarness, facts: str) -> None:
    settings = maintenance.runner.settings
    note_settings(maintenance.database, settings, "worker")
    tamper(maintenance.database, update(audit).values(facts_json=facts))

    note_settings(maintenance.database, settings, "worker")

    assert [entry.number for entry in entries(maintenance.database, "default")] == [1, 2]


def test_an_end_without_an_owner_is_delivered_once(maintenance: MaintenanceHarness) -> None:
    run_id = maintenance.ended()

    assert maintenance.look() == 1
    assert maintenance.look() == 0

    row = maintenance.row(run_id)
    assert ends_received(run_id) == 1
    assert (row.observers_told, row.owner, row.lease_until) == (True, None, None)


def test_everything_written_with_the_end_is_delivered_and_nothing_before(maintenance: MaintenanceHarness) -> None:
    """A run whose worker died; its observers there received what that one wrote."""
    handle = maintenance.run()
    journal = maintenance.process.journal
    journal.loop.run(journal.owner.claim(handle.run_id))
    cancel(maintenance.database, Principal(), handle.run_id, "ann")
    lose_owner(maintenance.database, handle.run_id)

    maintenance.look()

    kinds = [payload.event_type for of, payload in RECEIVED if of == handle.run_id]
    numbers = [payload.seq for of, payload in RECEIVED if of == handle.run_id]
    assert kinds[-1] == "end"
    assert "status" not in kinds
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_persons_answer_is_delivered_with_the_end_that_followed_it(maintenance: MaintenanceHarness, how: str) -> None:
    """Two questions, of which one was answered: the run has no owner any more."""
    handle = maintenance.run()
    answered, late = question(), question(expires_in_s=-1)
    change = asks(maintenance.database, handle.run_id, answered, late)
    maintenance.runner.handle(handle.run_id).decide(answered.id, Decision(decision="fail"))
    if how == "cancelled":
        cancel(maintenance.database, Principal(), handle.run_id, "ann")
    else:
        fire_timers(maintenance.database, handle.run_id)

    assert (maintenance.look(), maintenance.look()) == (1, 0)

    received = [(payload.seq, payload.event_type) for of, payload in RECEIVED if of == handle.run_id]
    logged = [(payload.seq, payload.event_type) for payload in handle.events()]
    assert received == [entry for entry in logged if entry[0] >= change.events[0].seq]
    assert "approval" in [kind for seq, kind in received if seq > change.events[-1].seq]
    assert received[-1][1] == "end"


def test_an_answer_that_an_owner_delivered_is_not_delivered_again_with_the_end(maintenance: MaintenanceHarness) -> None:
    handle = maintenance.run()
    open_question, journal = question(), maintenance.process.journal
    asks(maintenance.database, handle.run_id, open_question)
    maintenance.runner.handle(handle.run_id).decide(open_question.id, Decision(decision="fail"))
    journal.loop.run(journal.owner.claim(handle.run_id))
    maintenance.expire_lease()
    cancel(maintenance.database, Principal(), handle.run_id, "ann")

    assert maintenance.look() == 1

    kinds = [payload.event_type for of, payload in RECEIVED if of == handle.run_id]
    assert kinds == ["withdrawn", "tool_result", "control", "end"]


def test_a_database_that_is_busy_for_a_moment_puts_it_off(
    maintenance: MaintenanceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = maintenance.ended(), maintenance.ended()
    fail_once(monkeypatch, maintenance, DatabaseBusy("the database is locked."))

    assert maintenance.look() == 1
    (late,) = [run_id for run_id in (first, second) if not maintenance.row(run_id).observers_told]
    assert (ends_received(first) + ends_received(second), ends_received(late)) == (1, 0)

    assert maintenance.look() == 0, "another process delivers it"
    maintenance.expire_lease()
    assert maintenance.look() == 1
    assert (ends_received(first), ends_received(second)) == (1, 1)
    assert maintenance.row(late).observers_told


def test_an_unexpected_error_of_one_run_keeps_no_other_from_being_delivered(maintenance: MaintenanceHarness) -> None:
    broken, following = maintenance.ended(), maintenance.ended()
    with maintenance.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == broken).values(observers_json="no JSON"))

    assert maintenance.look() == 1

    assert (maintenance.row(broken).observers_told, maintenance.row(following).observers_told) == (False, True)
    assert ends_received(following) == 1


def test_a_delivery_that_always_fails_is_given_up(
    maintenance: MaintenanceHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = maintenance.ended()
    fail_once(monkeypatch, maintenance, DatabaseDamaged("a page of the file is broken."))

    assert maintenance.look() == 1

    assert maintenance.row(run_id).observers_told
    assert ends_received(run_id) == 0
    assert "a page of the file is broken" in caplog.text


def test_an_observer_that_is_missing_here_leaves_the_others_theirs(
    maintenance: MaintenanceHarness, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = maintenance.ended("nowhere:Missing", "logger", WITNESS)

    assert maintenance.look() == 1

    assert run_id in maintenance.logged()
    assert ends_received(run_id) == 1
    assert maintenance.row(run_id).observers_told
    assert "nowhere:Missing" in caplog.text


def test_a_delivery_that_another_worker_holds_is_left_to_it(maintenance: MaintenanceHarness) -> None:
    run_id = maintenance.ended()
    with maintenance.database.write() as connection:
        until = {
            "lease_until": maintenance.database.lease_clock() + 60_000,
            "lease_boot": maintenance.database.lease_boot(),
        }
        connection.execute(update(runs).where(runs.c.id == run_id).values(owner="own_other", **until))

    assert maintenance.look() == 0
    maintenance.expire_lease()
    assert maintenance.look() == 1
    assert ends_received(run_id) == 1


def test_more_than_a_batch_is_delivered_round_by_round(
    maintenance: MaintenanceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus.journal.unowned.runs, "BATCH", 2)
    ended = [maintenance.ended() for _ in range(5)]

    assert [maintenance.look() for _ in range(4)] == [2, 2, 1, 0]

    assert [ends_received(run_id) for run_id in ended] == [1] * 5


def test_a_worker_that_outlasts_its_lease_leaves_the_rest_to_others(maintenance: MaintenanceHarness) -> None:
    first, second = maintenance.ended(), maintenance.ended()
    seconds = iter([0.0, 59.9, 60.0])

    assert deliver_undelivered(maintenance.process, clock=lambda: next(seconds)) == 1

    assert ends_received(first) + ends_received(second) == 1


def fail_once(monkeypatch: pytest.MonkeyPatch, maintenance: MaintenanceHarness, error: Exception) -> None:
    """Let the next look into a run's log go wrong."""
    unowned = maintenance.process.journal.owner.unowned
    coming, undelivered = [error], unowned.undelivered

    def failing(run: Any) -> Sequence[Payload]:
        if coming:
            raise coming.pop()
        return undelivered(run)

    monkeypatch.setattr(unowned, "undelivered", failing)


def stopped_while_waiting(maintenance: MaintenanceHarness, run_id: str) -> None:
    asks(maintenance.database, run_id, question())
    cancel(maintenance.database, Principal(), run_id, "ann")


def expired(maintenance: MaintenanceHarness, run_id: str) -> None:
    asks(maintenance.database, run_id, question(expires_in_s=-1))
    fire_timers(maintenance.database, run_id)


def dead(maintenance: MaintenanceHarness, run_id: str) -> None:
    journal = maintenance.process.journal
    while maintenance.row(run_id).status != "dead":
        journal.loop.run(journal.owner.claim(run_id))
        lose_owner(maintenance.database, run_id)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("ends", "status", "reason"),
    [
        (stopped_while_waiting, "cancelled", "stopped"),
        (expired, "failed", "approval_expired"),
        (dead, "dead", "crashed"),
    ],
)
def test_the_engine_gets_once_how_a_run_ended_without_a_worker(
    maintenance: MaintenanceHarness,
    ends: Callable[[MaintenanceHarness, str], None],
    status: str,
    reason: str,
) -> None:
    run_id = maintenance.run().run_id
    ends(maintenance, run_id)
    with EngineServer() as engine:
        governed = maintenance.process.settings.model_copy(update={"governance_url": engine.url})
        maintenance.process = replace(maintenance.process, settings=governed)

        assert (maintenance.look(), maintenance.look()) == (1, 0)

    (event,) = engine.events
    assert (event["event_type"], event["run_id"], event["status"], event["error"]) == (
        *("WorkflowFailed", run_id),
        *(status, reason),
    )
    assert event["context"]["initiator_id"]


@pytest.mark.parity
def test_an_engine_that_does_not_answer_keeps_no_end_from_the_observers(maintenance: MaintenanceHarness) -> None:
    run_id = maintenance.ended()
    governed = maintenance.process.settings.model_copy(update={"governance_url": "http://127.0.0.1:1"})
    maintenance.process = replace(maintenance.process, settings=governed)

    assert (maintenance.look(), maintenance.look()) == (1, 0)

    assert ends_received(run_id) == 1
