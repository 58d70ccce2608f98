"""A tailing observer gets each committed event of the log at least once, in order in its run, behind a cursor."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from bus.journal.tailing import CursorLost, dead_letters, feed_again
from bus.payloads import EndPayload, HandoverPayload
from config.clock import stamp
from config.errors import CallboardError, SettingInvalid
from observers.tailing import tailer as tailing
from observers.tailing.tailed import EventSelection
from tests.observers.tailing.conftest import Room
from tests.tailed_log import end, message, status


def test_every_event_is_delivered_in_the_order_of_its_run(room: Room):
    runs = room.log.runs(40)
    room.log.turn(runs, messages=3)
    member = room.member()

    room.drain(member)
    room.log.add(runs[0], status(6, "queued"))
    room.drain(member)

    assert room.taken == {run: [1, 2, 3, 4, 5] for run in runs[1:]} | {runs[0]: [1, 2, 3, 4, 5, 6]}
    assert room.state.delivered == 201
    assert (room.state.behind, room.state.behind_s) == (0, 0)


def test_another_process_continues_where_the_first_one_stopped(room: Room):
    runs = room.log.runs(5)
    room.log.turn(runs)
    first = room.member("own_1")
    room.drain(first)

    room.log.add_all((run, status(4)) for run in runs)
    room.cursors.leave("sink", first.member)
    room.drain(room.member("own_2"))

    assert all(numbers == [1, 2, 3, 4] for numbers in room.taken.values())


def test_two_members_share_the_runs_and_a_dead_ones_are_taken_over(room: Room):
    runs = room.log.runs(200)
    first, second = room.member("own_1"), room.member("own_2")
    for member in (first, second, first, second):
        member.step()
    room.log.turn(runs)
    room.drain(second)
    half = len(room.taken)
    assert 40 < half < 160

    room.drain(first)
    assert sorted(room.taken) == sorted(runs)
    room.cursors.leave("sink", second.member)
    room.log.add_all((run, status(4)) for run in runs)
    room.drain(first)

    assert all(numbers == [1, 2, 3, 4] for numbers in room.taken.values())


def test_a_member_that_was_taken_for_dead_moves_no_cursor(room: Room):
    run = room.log.run()
    room.log.add(run, status(1))
    first = room.member("own_1")
    first.step()
    room.cursors.leave("sink", first.member)
    second = room.member("own_2")
    room.drain(second)
    room.log.add(run, end(2))

    def take_over(*_: object) -> None:
        room.kind.act = lambda *_: None
        room.cursors.leave("sink", second.member)

    room.kind.act = take_over
    with pytest.raises(CursorLost):
        second.step()
    room.drain(room.member("own_3"))

    assert room.taken[run] == [1, 2, 2]


def test_what_the_observer_refuses_holds_its_own_run_alone_and_is_tried_again(room: Room):
    bad, good = room.log.runs(2)
    room.log.turn([bad, good])
    broken = {"is": True}

    def refuse(agent, payload, context) -> None:
        if context.run_id == bad and payload.seq == 2 and broken["is"]:
            raise ConnectionError("the sink is away; token=sk-proj-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

    room.kind.act = refuse
    member = room.member()
    room.drain(member)
    assert room.taken == {good: [1, 2, 3], bad: [1]}
    assert (room.state.retrying, room.state.dead) == (1, 0)
    with room.database.read() as connection:
        [letter] = dead_letters(connection, "sink")
    assert "sk-proj" not in letter["error"]
    assert "ConnectionError" in letter["error"]

    broken["is"] = False
    room.log.add(bad, status(4))
    now(room)
    room.drain(member)

    assert room.taken[bad] == [1, 2, 3, 4]
    assert room.state.retrying == 0


def now(room: Room) -> None:
    with room.database.write() as connection:
        feed_again(connection, "sink", None)


def test_what_waited_behind_a_failed_delivery_has_the_selected_types_alone(room: Room):
    run = room.log.run()
    room.log.add(run, status(1), message(2), status(3), end(4))
    broken = {"is": True}

    def refuse(agent, payload, context) -> None:
        if payload.seq == 1 and broken["is"]:
            raise ConnectionError("away")

    room.kind.act = refuse
    member = room.member(selection=EventSelection(types=frozenset({"status", "end"})))
    room.drain(member)
    broken["is"] = False
    now(room)
    room.drain(member)

    assert room.taken[run] == [1, 3, 4]


def test_a_run_whose_events_are_all_given_up_loses_none_of_the_others(room: Room):
    run = room.log.run()
    count = 3 * tailing.OPEN_AFTER
    room.log.add(run, *(message(number) for number in range(1, count + 1)))
    room.kind.act = lambda *_: 1 / 0
    member = room.member(retry_for_s=1e-6)
    for _ in range(5):
        member.step()
    with room.database.write() as connection:
        connection.exec_driver_sql("UPDATE failed_deliveries SET next_ms = 1, state = 'retrying'")
    room.kind.act = lambda agent, payload, context: 1 / (payload.seq % 2)
    other = room.member("own_2")
    room.cursors.leave("sink", member.member)
    for _ in range(3 * count):
        other.step()
        now(room)

    assert set(room.taken[run]) == {number for number in range(1, count + 1) if number % 2}


def test_a_reliable_delivery_is_given_up_in_the_end_and_can_be_fed_again(room: Room):
    run = room.log.run()
    room.log.turn([run])
    broken = {"is": True}

    def refuse(agent, payload, context) -> None:
        if payload.seq == 1 and broken["is"]:
            raise ValueError("no")

    room.kind.act = refuse
    member = room.member(retry_for_s=0.0)
    room.drain(member)
    assert room.taken[run] == [2, 3]
    assert (room.state.retrying, room.state.dead) == (0, 1)
    assert room.state.is_late

    now(room)
    room.drain(member)
    assert room.state.dead == 1

    broken["is"] = False
    now(room)
    room.drain(member)
    assert room.taken[run] == [2, 3, 1]
    assert room.state.dead == 0


@pytest.mark.parametrize(("delivery", "dead"), [("reliable", 1), ("critical", 0)])
def test_what_would_be_refused_again_is_a_dead_letter_at_once_unless_it_is_critical(
    room: Room, delivery: str, dead: int
):
    run = room.log.run()
    room.log.turn([run])

    def refuse(agent, payload, context) -> None:
        if payload.seq == 1:
            raise SettingInvalid("a key is missing")

    room.kind.act = refuse
    room.drain(room.member(delivery=delivery))

    assert (room.state.dead, room.state.retrying) == (dead, 1 - dead)
    assert room.taken[run] == ([2, 3] if dead else [])


def test_a_critical_delivery_is_never_given_up(room: Room):
    run = room.log.run()
    room.log.turn([run])
    room.kind.act = lambda *_: 1 / 0
    member = room.member(delivery="critical", retry_for_s=float("inf"))

    for _ in range(30):
        now(room)
        member.step()

    assert not room.taken
    assert (room.state.retrying, room.state.dead) == (1, 0)


def test_a_best_effort_delivery_is_tried_once_and_counted(room: Room):
    run = room.log.run()
    room.log.turn([run])
    room.kind.act = lambda agent, payload, context: 1 / (payload.seq - 2)

    room.drain(room.member(delivery="best_effort", retry_for_s=0.0))

    assert room.taken[run] == [1, 3]
    assert (room.state.dropped, room.state.dead, room.state.retrying) == (1, 0, 0)


def test_a_best_effort_observer_that_is_far_behind_leaves_events_out_and_counts_them(room: Room):
    run = room.log.run()
    room.log.add(run, *(message(number) for number in range(1, 40)))
    room.kind.max_queue = 10

    room.drain(room.member(delivery="best_effort", retry_for_s=0.0))

    assert not room.taken
    assert room.state.dropped == 39


def test_an_observer_that_fails_for_all_runs_gets_nothing_for_a_while(room: Room, monkeypatch):
    room.log.turn(room.log.runs(100))
    room.kind.act = lambda *_: 1 / 0
    member = room.member()

    assert member.step()
    assert not member.step()
    assert room.state.retrying == tailing.OPEN_AFTER
    assert room.state.behind > 0
    room.kind.act = lambda *_: None
    monkeypatch.setattr(time, "monotonic", lambda: time.perf_counter() + 1e6)
    now(room)
    room.drain(member)

    assert all(numbers == [1, 2, 3] for numbers in room.taken.values())
    assert len(room.taken) == 100


def test_a_batch_that_cannot_be_flushed_is_delivered_one_by_one(room: Room):
    good, bad = room.log.runs(2)
    room.log.turn([good, bad])
    gathered: list[tuple[str, int]] = []
    written: list[tuple[str, int]] = []

    def flush(self) -> None:
        mine, gathered[:] = gathered[:], []
        if (bad, 2) in mine:
            raise OSError("row too large")
        written.extend(mine)

    room.kind.act = lambda agent, payload, context: gathered.append((context.run_id, payload.seq))
    room.kind.flush = flush  # type: ignore[method-assign]
    room.drain(room.member())

    assert sorted(written) == sorted([(good, 1), (good, 2), (good, 3), (bad, 1)])
    assert room.state.retrying == 1
    assert room.state.delivered == 4


def test_what_it_writes_with_the_cursor_is_written_once(room: Room):
    run = room.log.run()
    room.log.turn([run])
    statements = iter([RuntimeError("the connection is gone"), None, None])

    def on_commit(self, connection) -> None:
        if (error := next(statements, None)) is not None:
            raise error

    room.kind.on_commit = on_commit  # type: ignore[method-assign]
    member = room.member()
    member.step()

    assert room.state.delivered == 0
    room.drain(member)
    assert room.state.delivered == 3
    assert room.taken[run] == [1, 2, 3, 1, 2, 3]


class Ledger:
    """What an observer gathers and writes with its cursor, but for events that it cannot write."""

    def __init__(self, room: Room) -> None:
        self.refused: set[tuple[str, int]] = set()
        self.written: list[tuple[str, int]] = []
        self._gathered: list[tuple[str, int]] = []
        ledger = self

        def on_commit(self, connection) -> None:
            mine, ledger._gathered[:] = ledger._gathered[:], []
            if refused := ledger.refused & set(mine):
                connection.exec_driver_sql("INSERT INTO no_such_table VALUES (1)" if len(refused) > 1 else "SELEC")
            ledger.written += mine

        room.kind.act = lambda agent, payload, context: self._gathered.append((context.run_id, payload.seq))
        room.kind.on_commit = on_commit  # type: ignore[method-assign]


def test_what_cannot_be_written_with_the_cursor_is_left_out_and_the_rest_is_written_once(room: Room):
    ledger = Ledger(room)
    good, bad = room.log.runs(2)
    room.log.turn([good, bad], messages=3)
    ledger.refused = {(bad, 2), (bad, 4)}
    member = room.member()

    room.drain(member)

    assert sorted(ledger.written) == sorted([*((good, seq) for seq in range(1, 6)), (bad, 1)])
    assert (room.state.retrying, room.state.delivered) == (1, 6)
    with room.database.write() as connection:
        [letter] = dead_letters(connection, "sink")
        assert letter["seq"] == 2
        assert "syntax" in letter["error"]
        feed_again(connection, "sink", None)
    ledger.refused = {(bad, 4)}
    for _ in range(4):  # one event of the run at a time
        room.drain(member)

    assert [seq for run, seq in ledger.written if run == bad] == [1, 2, 3]  # each once, and the bad one by itself
    with room.database.write() as connection:
        [letter] = dead_letters(connection, "sink")
        assert letter["seq"] == 4
        feed_again(connection, "sink", None)
    ledger.refused = set()
    for _ in range(4):
        room.drain(member)

    assert [seq for run, seq in ledger.written if run == bad] == [1, 2, 3, 4, 5]
    assert (room.state.retrying, room.state.dead, room.state.delivered) == (0, 0, 10)


def test_an_observer_that_can_write_nothing_gets_nothing_for_a_while(room: Room, monkeypatch):
    runs = room.log.runs(100)
    room.log.add_all((run, status(1)) for run in runs)
    ledger = Ledger(room)
    ledger.refused = {(run, 1) for run in runs}
    member = room.member()

    room.drain(member)

    held = room.state.retrying
    assert 0 < held <= tailing.OPEN_AFTER
    assert room.state.behind == 100 - held
    ledger.refused = set()
    monkeypatch.setattr(time, "monotonic", lambda clock=time.monotonic: clock() + 3600)
    room.drain(member)
    assert len(ledger.written) >= 100 - held


def test_what_can_never_be_written_is_a_dead_letter_and_later_events_follow(room: Room):
    ledger = Ledger(room)
    run = room.log.run()
    room.log.turn([run], messages=3)
    ledger.refused = {(run, 2)}
    member = room.member(retry_for_s=0.0)

    room.drain(member)

    assert [seq for _, seq in ledger.written] == [1, 3, 4, 5]
    assert room.state.dead == 1


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (EventSelection(agents=frozenset({"bela"})), {"bela"}),
        (EventSelection(tenants=frozenset({"acme"})), {"acme"}),
        (EventSelection(labels=frozenset({"secret"})), {"labelled"}),
        (EventSelection(agents=frozenset({"another"})), set()),
        (EventSelection(), {"bela", "acme", "labelled", "plain"}),
    ],
)
def test_it_gets_the_runs_that_are_selected(room: Room, selection: EventSelection, expected: set[str]):
    log = room.log
    runs = {
        "bela": log.run(agent="bela"),
        "acme": log.run(tenant="acme"),
        "labelled": log.run(labels='["secret"]'),
        "plain": log.run(),
    }
    log.turn(list(runs.values()))

    room.drain(room.member(selection=selection))

    assert room.taken.keys() == {runs[name] for name in expected}
    assert room.state.behind == 0


def test_it_gets_the_types_that_are_selected(room: Room):
    run = room.log.run()
    room.log.turn([run], messages=4)

    room.drain(room.member(selection=EventSelection(types=frozenset({"end"}))))

    assert [type(payload) for payload in room.kind.payloads] == [EndPayload]
    assert room.state.behind == 0


def test_the_agent_of_an_event_is_the_one_that_had_the_run_then(room: Room):
    run = room.log.run(agent="second", handed_from_json='["first"]')
    handover = HandoverPayload(seq=2, at=stamp(), from_agent="first", to_agent="second", reason="knows more")
    room.log.add(run, status(1), handover, message(3), end(4))
    agents: list[str] = []
    room.kind.act = lambda agent, payload, context: agents.append(agent.id)

    room.drain(room.member())

    assert agents == ["first", "first", "second", "second"]


@pytest.mark.parametrize("start", ["now", "beginning", "3", "a time"])
def test_a_new_observer_starts_where_it_should(room: Room, start: str):
    run = room.log.run()
    room.log.add(run, status(1), message(2))
    time.sleep(0.005)
    at = stamp()
    time.sleep(0.005)
    room.log.add(run, message(3), message(4))
    first = {"now": [], "beginning": [1, 2, 3, 4], "3": [4], "a time": [3, 4]}[start]
    if start == "3":  # positions of Postgres begin anywhere
        with room.database.read() as connection:
            start = str(connection.exec_driver_sql("SELECT max(position) FROM events").scalar_one() - 1)

    member = room.member(start=at if start == "a time" else start)
    room.log.add(run, end(5))
    room.drain(member)

    assert room.taken[run] == [*first, 5]


@pytest.mark.parametrize("part", ["date", "minute", "second", "tenth"])
def test_a_time_is_read_in_each_form_so_that_nothing_behind_it_is_left_out(room: Room, part: str):
    run = room.log.run()
    at = "2026-11-20T00:00:00.624Z"
    room.log.add(run, replace(status(1), at="2026-11-19T23:59:59.999Z"), replace(status(2), at=at))
    start = {"date": at[:10], "minute": f"{at[:16]}Z", "second": f"{at[:19]}Z", "tenth": f"{at[:21]}Z"}[part]

    room.drain(room.member(start=start))

    assert room.taken[run] == [2]


def test_a_place_beyond_the_end_of_the_log_is_refused(room: Room):
    with pytest.raises(CallboardError) as refusal:
        room.member(start="99999999")

    assert refusal.value.code == "observer_ahead"
    with room.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM observers").scalar_one() == 0


def test_a_cursor_beyond_the_end_of_the_log_delivers_nothing_until_it_is_reset(room: Room):
    run = room.log.run()
    room.log.add(run, status(1))
    member = room.member()
    room.drain(member)
    with room.database.write() as connection:
        connection.exec_driver_sql("UPDATE observer_cursors SET position = position + 1000000")

    member = room.member("own_1")
    with pytest.raises(CallboardError) as refusal:
        member.step()
    assert refusal.value.code == "observer_ahead"
    assert "reset" in str(refusal.value)

    room.cursors.reset("sink", "beginning")
    room.drain(room.member("own_1"))
    assert room.taken[run] == [1, 1]


def test_a_paused_observer_gets_nothing_until_it_continues(room: Room):
    run = room.log.run()
    member = room.member()
    room.drain(member)
    room.cursors.pause("sink", is_paused=True)
    room.log.turn([run])

    assert not member.step()
    assert room.state.state == "paused"
    room.cursors.pause("sink", is_paused=False)
    room.drain(member)

    assert room.taken[run] == [1, 2, 3]


def test_an_observer_that_is_removed_during_a_long_call_is_not_renewed(room: Room):
    member = room.member()
    room.drain(member)
    room.cursors.remove("sink")

    room.cursors.beat("sink", member.member)

    with room.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM observer_members").scalar_one() == 0


def test_a_reset_feeds_the_past_again_and_forgets_letters_that_come_again(room: Room):
    run = room.log.run()
    room.log.turn([run])
    room.kind.act = raise_at(2)
    member = room.member(retry_for_s=0.0)
    room.drain(member)
    assert room.state.dead == 1
    room.kind.act = lambda *_: None

    room.cursors.reset("sink", "beginning")
    room.drain(member)

    assert room.taken[run] == [1, 3, 1, 2, 3]
    assert (room.state.dead, room.state.is_late) == (0, False)


def raise_at(seq: int):
    """Return what an observer does that does not take one event of each run."""

    def act(agent, payload, context) -> None:
        if payload.seq == seq:
            raise OSError("no space")

    return act


def test_what_is_held_is_behind_however_far_the_cursor_is(room: Room):
    run = room.log.run()
    room.log.turn([run])
    room.kind.act = raise_at(2)
    room.drain(room.member())
    with room.database.write() as connection:
        connection.exec_driver_sql("UPDATE failed_deliveries SET first_ms = first_ms - 75000")

    assert room.state.behind == 0
    assert 75 <= room.state.behind_s < 100
    assert room.state.is_late


def test_another_class_is_not_fed_under_the_same_name_at_the_same_time(room: Room):
    member = room.member()
    room.drain(member)

    with pytest.raises(SettingInvalid, match=r"'sink' is fed with the class tests:Sink by process 1 on here"):
        room.member("own_2", class_path="tests:Other")

    room.cursors.leave("sink", member.member)
    room.drain(room.member("own_2", class_path="tests:Other"))
    assert room.state.class_path == "tests:Other"


def test_events_of_a_removed_run_are_passed_over(room: Room):
    gone, there = room.log.runs(2)
    room.log.turn([gone, there])
    member = room.member()
    with room.database.write() as connection:
        connection.exec_driver_sql(f"DELETE FROM events WHERE run_id = '{gone}'")
        connection.exec_driver_sql(f"DELETE FROM runs WHERE id = '{gone}'")

    room.drain(member)

    assert room.taken == {there: [1, 2, 3]}
    assert room.state.behind == 0
