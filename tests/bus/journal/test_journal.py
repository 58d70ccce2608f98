"""One process's journal: everything opened together, used from any thread, and closed together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import update

from agents.governance.guardrails.guardrails import Guardrails
from bus.errors import LOOP_BLOCKED
from bus.journal.approvals import Decision
from bus.journal.controls import STOP
from bus.journal.journal import Journal
from bus.journal.log.commit import Commit
from bus.journal.log.line import Line
from bus.loop import ProcessLoop
from bus.messages.message import BusMessage
from bus.payloads import ApprovalPayload, EndPayload, Payload, ResponsePayload, decode, encode
from config.database.tables import runs
from config.identity.principal import Principal
from config.settings import Settings
from tests.bus.journal_harness import HandWork, assert_whole, new_run
from tests.bus.questions import asks, question
from tests.raising import raises

ME = Principal()
Make = Callable[[], Journal]


class Hub:
    """Two processes' journals over one database and one Redis, or one journal with a log in memory."""

    def __init__(self) -> None:
        self.journals: list[Journal] = []
        self.published: list[str] = []

    def publish(self, message: BusMessage) -> None:
        self.published.append(message.run_id)


@pytest.fixture
def hub() -> Iterator[Hub]:
    journal_hub = Hub()
    yield journal_hub
    for journal in journal_hub.journals:
        journal.close()


@pytest.fixture(params=["alone", pytest.param("fleet", marks=pytest.mark.parity)])
def make(request: pytest.FixtureRequest, settings: Settings, sqlite_url: str, loop: ProcessLoop, hub: Hub) -> Make:
    """Return a maker of journals of one deployment; with a hot log in memory there is one journal only."""
    its = settings.model_copy(update={"database_url": sqlite_url, "lease_s": 60.0, "beat_s": 20.0, "reap_s": 20.0})
    if request.param == "fleet":
        its = its.model_copy(update={"redis_url": request.getfixturevalue("redis_url")})

    def one_more() -> Journal:
        if request.param == "alone" and hub.journals:
            return hub.journals[0]
        hub.journals.append(Journal(its, publish=hub.publish, guard=Guardrails, loop=loop))
        return hub.journals[-1]

    return one_more


async def work(journal: Journal, run_id: str, thread_id: str, *pieces: str) -> list[Payload]:
    """Work a run off as a handler does."""
    delivered: list[Payload] = []

    def tell(payload: Payload) -> None:
        delivered.append(payload)
        journal.live.hot_log.append(run_id, payload.seq, encode(payload, run_id, thread_id))

    lease = await journal.owner.claim(run_id)
    assert lease is not None
    writer = journal.owner.writer(lease, tell)
    journal.live.hot_log.attach(run_id, lease.fence, writer)
    for payload in lease.first_events:
        tell(payload)
    for piece in pieces:
        writer.delta(ResponsePayload, {"content": piece, "message_id": "msg_1", "step_id": "stp_1"})
    await writer.commit(Commit(events=[EndPayload(status="succeeded", output="x")]))
    await journal.live.hot_log.detach(run_id, lease.fence)
    return delivered


def test_a_run_is_followed_from_another_process_and_thread(make: Make):
    here, there = make(), make()
    accepted = here.clients.accept(new_run())
    got: list[Line] = []
    reading = threading.Thread(
        target=lambda: got.extend(there.readers.follow_blocking("default", accepted.run_id, accepted.thread_id, 0)),
        daemon=True,
    )
    reading.start()

    here.loop.run(work(here, accepted.run_id, accepted.thread_id, "a", "b"), 20)
    reading.join(20)

    assert_whole(got)


def test_the_end_is_waited_for_before_and_after_it_is_there(make: Make):
    here, there = make(), make()
    accepted = here.clients.accept(new_run())

    async def play() -> list[Line]:
        waiting = asyncio.ensure_future(there.readers.wait("default", accepted.run_id, accepted.thread_id))
        await asyncio.sleep(0)
        await work(here, accepted.run_id, accepted.thread_id, "a")
        return [await waiting, await there.readers.wait("default", accepted.run_id, accepted.thread_id)]

    first, second = here.loop.run(play(), 20)

    assert first == second
    assert first.is_end


def test_following_and_waiting_on_the_loops_own_thread_is_refused(make: Make):
    journal = make()

    async def block() -> None:
        next(journal.readers.follow_blocking("default", "run_1", "thr_1", 0))

    with raises(LOOP_BLOCKED):
        journal.loop.run(block(), 20)


def test_what_went_wrong_while_reading_is_raised_where_it_is_read(make: Make, monkeypatch: pytest.MonkeyPatch):
    journal = make()

    async def fail(*_: object) -> list[Line]:
        raise ValueError("broken")

    monkeypatch.setattr(journal.live.hot_log, "read_after", fail)

    with pytest.raises(ValueError, match="broken"):
        list(journal.readers.follow_blocking("default", "run_1", "thr_1", 0))


def test_a_viewer_gets_the_stop_of_an_unowned_run(make: Make):
    here, there = make(), make()
    accepted = here.clients.accept(new_run())
    lines = there.readers.follow_blocking("default", accepted.run_id, accepted.thread_id, 0)
    assert next(lines).type == "status"

    here.clients.control(ME, accepted.run_id, STOP, by="ann")

    assert [line.type for line in lines] == ["control", "end"]


def test_a_stop_reaches_the_owner_in_another_process(make: Make):
    here, there = make(), make()
    accepted = here.clients.accept(new_run())

    async def own() -> asyncio.Event:
        lease = await there.owner.claim(accepted.run_id)
        assert lease is not None
        stopped = asyncio.Event()
        await there.owner.lease_manager.track(there.owner.writer(lease, lambda _: None), HandWork(stopped.set))
        return stopped

    async def happens(event: asyncio.Event) -> None:
        async with asyncio.timeout(20):
            await event.wait()

    stopped = here.loop.run(own(), 20)
    assert here.clients.control(ME, accepted.run_id, STOP, by="ann").status == "running"

    here.loop.run(happens(stopped), 20)


def test_a_stop_wakes_the_threads_next_run(make: Make, hub: Hub):
    journal = make()
    first, second = (journal.clients.accept(new_run(thread_id="mine")) for _ in range(2))

    stop = journal.clients.control(ME, first.run_id, STOP, by="ann")
    assert journal.live.relay.settle(20)

    assert stop.wake == second.run_id
    assert hub.published == [second.run_id]


def test_a_viewer_gets_a_question_and_the_answer_given_elsewhere(make: Make):
    here, there = make(), make()
    accepted = here.clients.accept(new_run())
    open_question = question()
    here.live.publish(asks(here.database, accepted.run_id, open_question))
    lines = there.readers.follow_blocking("default", accepted.run_id, accepted.thread_id, 0)
    while next(lines).type != "approval":
        pass
    assert next(lines).type == "status"

    here.clients.decide(ME, accepted.run_id, open_question.id, Decision(decision="run_again"), by="ann")

    answered = decode(next(lines).data)
    assert isinstance(answered, ApprovalPayload)
    assert (answered.decision, answered.by) == ("run_again", "ann")
    assert next(lines).type == "status"
    lines.close()  # type: ignore[attr-defined]  # it is a generator


def test_an_answer_wakes_the_run_that_asked(make: Make, hub: Hub):
    journal = make()
    accepted = journal.clients.accept(new_run())
    open_question = question()
    asks(journal.database, accepted.run_id, open_question)

    decided = journal.clients.decide(ME, accepted.run_id, open_question.id, Decision(decision="fail"), by="ann")
    assert journal.live.relay.settle(20)

    assert decided.written.wake == accepted.run_id
    assert hub.published == [accepted.run_id]


def test_the_board_is_nudged_when_a_wake_up_is_out(make: Make):
    here, there = make(), make()
    received: list[str] = []
    changed = threading.Event()

    def take(run_id: str) -> None:
        received.append(run_id)
        changed.set()

    there.loop.run(there.live.hot_log.listen(there.live.keys.board("default"), take), 20)

    accepted = here.clients.accept(new_run())
    here.live.relay.publish_soon(accepted.run_id)

    assert changed.wait(20)
    assert received[0] == accepted.run_id


def test_a_page_is_what_sql_has(make: Make):
    journal = make()
    accepted = journal.clients.accept(new_run())
    delivered = journal.loop.run(work(journal, accepted.run_id, accepted.thread_id), 20)

    page, has_more = journal.readers.page(accepted.run_id, accepted.thread_id, 1)

    assert [line.seq for line in page] == [payload.seq for payload in delivered]
    assert not has_more


def test_a_zombie_of_this_process_stops_when_the_run_is_ended_over_it(make: Make):
    journal = make()
    accepted = journal.clients.accept(new_run())
    lost = threading.Event()

    async def own() -> None:
        lease = await journal.owner.claim(accepted.run_id)
        assert lease is not None
        writer = journal.owner.writer(lease, lambda _: None)
        writer.on_lost = lost.set
        journal.live.hot_log.attach(accepted.run_id, lease.fence, writer)

    journal.loop.run(own(), 20)
    with journal.database.write() as connection:
        connection.execute(update(runs).values(lease_until=0))

    assert journal.clients.control(ME, accepted.run_id, STOP, by="ann").status == "cancelled"
    assert lost.wait(20)


def test_closing_ends_every_task_and_thread(make: Make, hub: Hub):
    journal = make()
    accepted = journal.clients.accept(new_run())
    journal.loop.run(work(journal, accepted.run_id, accepted.thread_id), 20)
    journal.live.relay.publish_soon(accepted.run_id)

    journal.close()
    hub.journals.clear()

    assert journal.live.relay._thread is None
