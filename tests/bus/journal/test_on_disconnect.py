"""A run without viewers is stopped or paused as its policy says; a viewer counts it anew, and so does a resumption."""

from __future__ import annotations

import orjson
import pytest
from sqlalchemy import select, update

from bus.journal.controls import CONTROLS
from bus.journal.mailbox.control import control
from bus.journal.ownership.leases import requests
from bus.journal.ownership.reaper import due, fire
from bus.journal.records.on_disconnect import DISCONNECT, PARKED_S, note_viewer
from config.database.engine import wall_ms
from config.database.tables import messages, runs, timers
from config.errors import BadRequest
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness, fire_timers


def left_s(harness: JournalHarness, run_id: str) -> float:
    """Return in how many seconds the policy applies."""
    with harness.database.read() as connection:
        due_ms = connection.execute(select(timers.c.due_ms).where(timers.c.run_id == run_id)).scalar_one()
        return (due_ms - wall_ms(connection)) / 1000


def kinds(harness: JournalHarness, run_id: str) -> list[str]:
    return [row.kind for row in harness.rows(select(timers).where(timers.c.run_id == run_id))]


@pytest.mark.parametrize("policy", [None, "continue"])
def test_a_run_continues_without_viewers_and_nothing_is_kept_of_it(harness: JournalHarness, policy: str | None) -> None:
    run_id = harness.accept(on_disconnect=policy).run_id

    assert note_viewer(harness.database, run_id) is None
    assert kinds(harness, run_id) == []


def test_a_queued_run_that_never_had_a_viewer_is_stopped(harness: JournalHarness) -> None:
    run_id = harness.accept(on_disconnect="stop:30").run_id
    assert 29 < left_s(harness, run_id) <= 40

    fire_timers(harness.database, run_id)

    assert harness.run_row(run_id).status == "cancelled"
    assert kinds(harness, run_id) == []
    (note,) = harness.rows(select(messages.c.data_json).where(messages.c.role == "error"))
    assert orjson.loads(note.data_json) == {"content": "Stopped: it had no viewers for 30 s."}


@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_the_owner_of_a_run_without_viewers_is_asked(harness: JournalHarness, verb: str) -> None:
    owner = harness.own(harness.accept(on_disconnect=f"{verb}:30").run_id)

    fire_timers(harness.database, owner.lease.run_id)
    fire_timers(harness.database, owner.lease.run_id)

    (request,) = requests(harness.database, "own_1")
    assert (request.kind, request.by) == (verb, "on_disconnect")
    assert left_s(harness, owner.lease.run_id) > 29


def test_a_viewer_who_comes_while_the_reaper_looks_keeps_the_run(harness: JournalHarness) -> None:
    run_id = harness.accept(on_disconnect="stop:30").run_id
    with harness.database.write() as connection:
        connection.execute(update(timers).values(due_ms=1))
    ((_, timer_id),) = due(harness.database)

    assert note_viewer(harness.database, run_id) == 10
    assert fire(harness.database, run_id, timer_id) is None

    assert harness.run_row(run_id).status == "queued"
    assert left_s(harness, run_id) > 29


def test_a_paused_run_is_left_alone_until_it_is_resumed_and_then_counted_anew(harness: JournalHarness) -> None:
    run_id = harness.accept(on_disconnect="pause:30").run_id
    fire_timers(harness.database, run_id)
    assert (harness.run_row(run_id).status, harness.run_row(run_id).reason) == ("waiting", "paused")
    with harness.database.write() as connection:
        connection.execute(update(timers).where(timers.c.kind == DISCONNECT).values(due_ms=1))
    for run_of_timer, timer_id in due(harness.database):
        fire(harness.database, run_of_timer, timer_id)
    with harness.database.read() as connection:
        parked = connection.execute(select(timers.c.due_ms).where(timers.c.kind == DISCONNECT)).scalar_one()
        assert parked > wall_ms(connection) + PARKED_S * 900

    control(harness.database, Principal(), run_id, CONTROLS["resume"], "ann")

    assert kinds(harness, run_id) == [DISCONNECT]
    assert 29 < left_s(harness, run_id) <= 40


def test_the_turn_that_a_steer_begins_has_the_policy_of_the_run_that_failed(harness: JournalHarness) -> None:
    owner = harness.own(harness.accept(on_disconnect="stop:30").run_id)
    control(harness.database, Principal(), owner.lease.run_id, CONTROLS["steer"], "ann", data={"content": "More."})

    harness.do(owner.end("failed"))

    (turn,) = harness.rows(select(runs).where(runs.c.id != owner.lease.run_id))
    assert kinds(harness, turn.id) == [DISCONNECT]


def test_an_ended_run_is_forgotten(harness: JournalHarness) -> None:
    owner = harness.own(harness.accept(on_disconnect="pause:30").run_id)
    harness.do(owner.end())

    fire_timers(harness.database, owner.lease.run_id)

    assert kinds(harness, owner.lease.run_id) == []


@pytest.mark.parametrize("policy", ["stop", "quit", "kill:30", "stop:soon", "stop:2", "stop:100000", "stop:30\n"])
def test_an_unknown_policy_is_refused(harness: JournalHarness, policy: str) -> None:
    with pytest.raises(BadRequest, match=r"'on_disconnect' has to be `continue`, .* from 3 to 99999 seconds"):
        harness.accept(on_disconnect=policy)

    assert harness.rows(select(runs)) == []
