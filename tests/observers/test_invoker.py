import asyncio
import logging
import threading
import time

import pytest

from bus.payloads import EndPayload, ResponsePayload, StatusPayload
from observers.base import AgentObserver
from observers.invoker import MAX_FAILURES, drain, dropped_payloads
from observers.queue import name_of
from tests.observers.conftest import Room, Witness


class Raises(Witness):
    name = "raises"
    error: BaseException = ValueError("sk-secret")

    def on_response(self, agent, payload, context) -> None:
        super().on_response(agent, payload, context)
        raise self.error


class Blocks(Witness):
    name = "blocks"

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def on_response(self, agent, payload, context) -> None:
        self.gate.wait()
        super().on_response(agent, payload, context)


@pytest.mark.parametrize("inline", [True, False])
def test_every_payload_arrives_in_order(inline: bool) -> None:
    witness = Witness(inline=inline)
    room = Room(witness)

    room.whole_run(pieces=2500)

    assert witness.ended.wait(10)
    assert witness.numbers == list(range(1, 2504))
    assert witness.threads == {threading.get_ident()} if inline else threading.get_ident() not in witness.threads


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), asyncio.CancelledError(), RecursionError()])
def test_one_that_raises_disturbs_no_other(
    inline: bool, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Raises(inline=inline), Witness()
    bad.error = error
    room = Room(bad, good)

    with caplog.at_level(logging.WARNING):
        room.whole_run()
        assert drain(10) == []

    assert bad.numbers == good.numbers == [1, 2, 3, 4, 5, 6]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert type(error).__name__ in warnings[0].getMessage()


def test_the_text_of_an_error_is_reported_at_debug_only(caplog: pytest.LogCaptureFixture) -> None:
    room = Room(Raises(inline=True))

    with caplog.at_level(logging.DEBUG):
        room.whole_run()

    assert [record.levelno for record in caplog.records if "sk-secret" in record.getMessage()] == []
    assert sum(1 for record in caplog.records if record.exc_info) == 1


@pytest.mark.parametrize("inline", [True, False])
def test_one_that_always_fails_is_left_out_until_the_end(inline: bool) -> None:
    bad = Raises(inline=inline)
    room = Room(bad)

    room.whole_run(pieces=100)
    assert drain(10) == []

    assert bad.numbers == [*range(1, MAX_FAILURES + 1), 103]


def test_a_success_forgives_the_failures_before_it() -> None:
    class Every(Witness):
        def on_response(self, agent, payload, context) -> None:
            super().on_response(agent, payload, context)
            if payload.seq % 10:
                raise ValueError

    flaky = Every(inline=True)

    Room(flaky).whole_run(pieces=100)

    assert len(flaky.seen) == 103


def test_one_that_blocks_for_ever_costs_its_thread_only(witness: Witness) -> None:
    blocked = Blocks()
    room = Room(blocked, witness)

    room.whole_run()

    assert witness.ended.wait(10)
    assert "blocks" in drain(0.05)  # other tests may have left something too
    blocked.gate.set()
    assert blocked.ended.wait(10)


def test_one_a_thousand_times_slower_gets_everything_later(witness: Witness) -> None:
    class Slow(Witness):
        name = "slow"

        def on_response(self, agent, payload, context) -> None:
            time.sleep(0.001)  # the thing under test
            super().on_response(agent, payload, context)

    slow = Slow()
    room = Room(slow, witness)

    room.whole_run(pieces=50)

    assert witness.ended.wait(10)
    assert slow.ended.wait(10)
    assert slow.numbers == witness.numbers


def test_what_overflows_is_first_text_then_events_but_never_the_end(caplog: pytest.LogCaptureFixture) -> None:
    blocked = Blocks()
    blocked.max_queue = 10
    room = Room(blocked)
    room.tell(StatusPayload, status="running")

    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            room.tell(ResponsePayload, content="x")
        for _ in range(100):
            room.tell(StatusPayload, status="running")
        end = room.tell(EndPayload, status="succeeded")
        blocked.gate.set()
        assert drain(10) == []

    kinds = [payload.type for payload in blocked.seen]
    assert kinds.count("response") <= 10
    assert len(kinds) <= 23
    assert blocked.seen[-1] is end
    assert blocked.numbers == sorted(blocked.numbers)
    assert dropped_payloads() == {name_of(blocked): 202 - len(kinds)}
    messages = [record.getMessage() for record in caplog.records]
    assert len([text for text in messages if "too slow" in text]) == 1
    assert len([text for text in messages if "were dropped" in text]) == 1


def test_runs_an_overflowing_observer_never_saw_cost_nothing() -> None:
    blocked = Blocks()
    blocked.max_queue = 10
    rooms = [Room(blocked) for _ in range(100)]

    for room in rooms:
        room.whole_run()
    waiting = len(vars(blocked)["_callboard_queue"]._waiting)
    blocked.gate.set()
    assert drain(10) == []

    assert waiting < 40
    assert len([payload for payload in blocked.seen if payload.type == "end"]) >= 3


def test_pieces_of_text_are_kept_from_those_who_do_not_want_them() -> None:
    witness = Witness()
    witness.wants_deltas = False

    Room(witness).whole_run()

    assert witness.ended.wait(10)
    assert [payload.type for payload in witness.seen] == ["status", "message", "end"]


class Ticking:
    """A clock on which each inline call takes ``step_s``."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_an_inline_observer_that_is_slow_thrice_is_moved_behind_a_queue_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    witness = Witness(inline=True)
    slow_room, other = Room(witness, clock=Ticking(0.006)), Room(witness)

    with caplog.at_level(logging.WARNING):
        slow_room.whole_run(pieces=20)
    assert witness.ended.wait(10)

    assert witness.numbers == list(range(1, 24))
    assert len(witness.threads) == 2
    assert witness.inline is False
    assert len(caplog.records) == 1
    witness.threads.clear()
    other.whole_run()
    assert drain(10) == []
    assert threading.get_ident() not in witness.threads


def test_an_inline_observer_that_is_interrupted_now_and_then_stays() -> None:
    witness = Witness(inline=True)
    clock = Ticking(0.0)
    room = Room(witness, clock=clock)

    for number in range(100):
        clock.step_s = 0.01 if number % 30 == 0 else 0.0
        room.tell(ResponsePayload, content="x")

    assert witness.inline is True


def test_a_pinned_observer_stays_however_slow() -> None:
    witness = Witness(inline=True)
    vars(witness)["pinned"] = True

    Room(witness, clock=Ticking(1.0)).whole_run()

    assert witness.threads == {threading.get_ident()}


def test_one_that_does_not_listen_is_not_called() -> None:
    class Deaf(Witness):
        def listens(self) -> bool:
            return False

    deaf = Deaf(inline=True)

    Room(deaf).whole_run()

    assert deaf.seen == []


def test_typed_hooks_are_called_by_type() -> None:
    received: list[str] = []

    class Typed(AgentObserver):
        inline = True

        def on_status(self, agent, payload, context) -> None:
            received.append(payload.status)

        def on_text(self, agent, payload, context) -> None:
            received.append(payload.content)

        def on_end(self, agent, payload, context) -> None:
            received.append(payload.status)

    Room(Typed()).whole_run(pieces=1)

    assert received == ["running", "piece 0 ", "succeeded"]


def test_a_batch_is_flushed_and_drain_flushes_inline_ones_too() -> None:
    class Flushes(Witness):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1
            raise OSError

    queued, inline = Flushes(), Flushes(inline=True)
    Room(queued, inline).whole_run()

    assert drain(10) == []

    assert queued.flushed >= 1
    assert inline.flushed == 1


def test_an_idle_observers_thread_ends_and_comes_back(monkeypatch: pytest.MonkeyPatch, witness: Witness) -> None:
    monkeypatch.setattr("observers.queue.IDLE_S", 0.001)
    room = Room(witness)
    room.tell(StatusPayload, status="running")
    assert drain(10) == []

    for thread in threading.enumerate():
        if thread.ident in witness.threads:
            thread.join(10)
    room.tell(EndPayload, status="succeeded")

    assert witness.ended.wait(10)
    assert witness.numbers == [1, 2]


def test_several_threads_may_notify_one_observer(witness: Witness) -> None:
    rooms = [Room(witness) for _ in range(8)]
    tellers = [threading.Thread(target=room.whole_run, args=(300,)) for room in rooms]

    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join()
    assert drain(20) == []

    assert len(witness.seen) == 8 * 303
    assert len(witness.threads) == 1
