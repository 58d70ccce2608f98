"""Whoever waits here for a run goes on with it, whatever the database does and whoever had it in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from agents.handle import RunHandle
from agents.process import process
from bus.journal.approvals import Decision
from bus.journal.crashes import ALWAYS_SUSPECT_AFTER
from bus.journal.leases import claim, hold
from bus.messages import RunAgentMessage
from bus.payloads import ApprovalPayload, Payload
from config.errors import DatabaseBusy, DatabaseUnreachable
from config.tables import runs
from handlers import run_agent
from handlers.desk import desk
from handlers.run_agent import RunAgentHandler
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import drain
from tests.house import House
from tests.model_server import Call, Turn

ASKS = "tools: ['tests.agents.sample_tools:pay']"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("TURN_S", "WAITING_S", "PAUSE_S"):
        monkeypatch.setattr(run_agent, pause, 0.01)


class Looks:
    """What the handler has seen of the state of its run, or was to see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[str] = []
        self._changed = threading.Condition()
        self._read = RunAgentHandler._read_status
        monkeypatch.setattr(RunAgentHandler, "_read_status", lambda handler, run_id: self._look(handler, run_id))

    def _look(self, handler: RunAgentHandler, run_id: str) -> str:
        status = self._read(handler, run_id)
        with self._changed:
            self._seen.append(status)
            self._changed.notify_all()
        return status

    def until(self, status: str, times: int = 1) -> None:
        """Wait until the state was seen to be this, so many times from now on."""
        with self._changed:
            self._seen.clear()
            assert self._changed.wait_for(lambda: self._seen.count(status) >= times, 20)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def asks_first(body: Mapping[str, Any]) -> Turn:
    """Have the tool called whose outcome a person has to say."""
    told = [message["role"] for message in body["messages"]]
    return Turn(text="done") if told[-1] == "tool" else Turn(calls=[Call(name="pay", arguments={})])


def answer(run: RunHandle) -> None:
    (asked,) = run.approvals()
    run.decide(asked["approval_id"], Decision(decision="take_as_done", result="paid"))


def row(house: House, run: RunHandle) -> Any:
    with house.runner.journal.read() as connection:
        return connection.execute(select(runs).where(runs.c.id == run.run_id)).one()


def change(house: House, run: RunHandle, **values: Any) -> None:
    with house.runner.journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run.run_id).values(**values))


def failing(times: int, wrong: Exception, work: Callable[..., Any]) -> tuple[Callable[..., Any], threading.Event]:
    """Return ``work`` as it fails so many times, and what is set when it has."""
    left, is_over = iter(range(times)), threading.Event()

    def shaky(*args: Any) -> Any:
        if next(left, None) is not None:
            raise wrong
        is_over.set()
        return work(*args)

    return shaky, is_over


@pytest.mark.parametrize("place", ["status", "hold"])
def test_a_database_that_fails_for_a_moment_ends_no_waiting(
    house: House, looks: Looks, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    house.agent(ASKS)
    house.model.respond = asks_first
    first = house.run(thread_id="talk")
    looks.until("waiting")

    if place == "status":
        status, is_over = failing(3, DatabaseUnreachable("for a moment"), RunAgentHandler._read_status)
        monkeypatch.setattr(RunAgentHandler, "_read_status", lambda handler, run_id: status(handler, run_id))
    else:
        shaky_hold, is_over = failing(3, DatabaseBusy("for a moment"), hold)
        monkeypatch.setattr(run_agent, "hold", shaky_hold)
        monkeypatch.setattr(house.runner.journal, "settings", house.settings.model_copy(update={"beat_s": 0.0}))
    second = house.run("And now?", thread_id="talk")
    assert is_over.wait(20)
    answer(first)

    assert first.result(20).status == "succeeded"
    looks.until("waiting")
    answer(second)
    assert second.result(20).status == "succeeded"


class Stalled:
    """A run in the middle of its first answer; the second one comes at once."""

    def __init__(self, house: House, looks: Looks) -> None:
        self.house, self.looks = house, looks
        self.journal = house.runner.journal
        house.model.script([Turn(text=["never ", "whole"], stall_after=2), Turn(text="whole")])
        self.run = house.run()
        for payload in self.run.events():
            if payload.event_type == "response":
                break

    def lose_to_another(self) -> None:
        """Have another process take the run, as it does when nothing was heard of this one."""
        change(self.house, self.run, lease_until=0)
        assert claim(self.journal.database, self.run.run_id, "own_other", 60) is not None
        self.journal.keeper._beat()

    def fall_silent(self) -> None:
        """Have this process write nothing, as it does when no heartbeat comes through."""
        self.journal.keeper._last_good_s -= 1000


@pytest.fixture
def stalled(house: House, looks: Looks) -> Iterator[Stalled]:
    yield Stalled(house, looks)
    house.model.resume()


def test_a_run_goes_on_under_its_fence_after_its_heartbeats_failed(stalled: Stalled, house: House) -> None:
    stalled.fall_silent()
    change(stalled.house, stalled.run, lease_until=0)
    house.model.resume()
    stalled.journal.keeper._beat()

    assert stalled.run.result(20).status == "succeeded"
    assert (row(stalled.house, stalled.run).fence, row(stalled.house, stalled.run).crashes) == (1, 0)


@pytest.mark.parametrize(("crashes", "end"), [(1, "succeeded"), (ALWAYS_SUSPECT_AFTER, "dead")])
def test_a_run_another_process_took_is_left_to_it_until_that_is_lost_too(
    stalled: Stalled, crashes: int, end: str
) -> None:
    stalled.lose_to_another()
    stalled.looks.until("running", times=3)
    assert row(stalled.house, stalled.run).owner == "own_other"

    change(stalled.house, stalled.run, lease_until=0, crashes=crashes)

    assert stalled.run.result(20).status == end
    assert row(stalled.house, stalled.run).crashes == crashes + 1


def test_waiting_ends_when_another_process_ends_the_run(stalled: Stalled) -> None:
    stalled.lose_to_another()
    stalled.looks.until("running")

    change(stalled.house, stalled.run, status="succeeded")

    stalled.house.runner.settle(20)


@pytest.mark.parametrize("leave", ["close", "release_all"])
def test_a_process_that_leaves_waits_for_no_run(house: House, looks: Looks, leave: str) -> None:
    house.agent(ASKS)
    house.model.respond = asks_first
    run = house.run()
    looks.until("waiting")

    house.runner.journal.loop.call_soon(getattr(house.runner.journal.keeper, leave))

    house.runner.settle(20)
    assert run.status() == "waiting"


# --- what observers hear of a run that waited for a person -----------------------------------------


class Witness(AgentObserver):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[Payload] = []

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        self.heard.append(payload)


def test_observers_hear_the_answers_of_a_person_in_their_place(house: House, looks: Looks) -> None:
    """Two questions: the first answer alone does not bring the run back to the queue."""
    house.agent(ASKS)
    house.model.respond = asks_twice
    witness = Witness()
    run = house.run(observers=("sse", witness))
    looks.until("waiting")

    for asked in run.approvals():
        run.decide(asked["approval_id"], Decision(decision="take_as_done", result="paid"))
    assert run.result(20).status == "succeeded"
    assert drain(20) == []

    logged = [(payload.seq, payload.event_type) for payload in house.events(run)]
    assert [(payload.seq, payload.event_type) for payload in witness.heard] == logged[1:]  # without its being accepted
    assert [payload.seq for payload in witness.heard] == list(range(2, len(logged) + 1))
    said = [payload.decision for payload in witness.heard if isinstance(payload, ApprovalPayload)]
    assert said == [None, None, "take_as_done", "take_as_done"]


def test_what_its_writer_showed_to_viewers_is_not_streamed_again(
    house: House, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.agent(ASKS)
    house.model.respond = asks_first
    hot_log = house.runner.journal.hot_log
    appended: list[tuple[str, int]] = []
    append = hot_log.append

    def noting(run_id: str, seq: int, line: bytes) -> None:
        appended.append((run_id, seq))
        append(run_id, seq, line)

    monkeypatch.setattr(hot_log, "append", noting)
    run = house.run(observers=("sse",))
    looks.until("waiting")
    answer(run)
    assert run.result(20).status == "succeeded"

    numbers = [seq for run_id, seq in appended if run_id == run.run_id]
    assert numbers == sorted(set(numbers))


def asks_twice(body: Mapping[str, Any]) -> Turn:
    """Have a tool called twice at once whose outcome a person has to say."""
    told = [message["role"] for message in body["messages"]]
    if told[-1] == "tool":
        return Turn(text="done")
    return Turn(calls=[Call(name="pay", arguments={}), Call(name="pay", arguments={})])


def test_a_forged_message_imports_nothing_while_others_wait_for_their_commits(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.agent()
    house.model.script([Turn(text="whole")])
    run = house.run(detached=True)
    loaded_on: list[str] = []
    load = RunAgentHandler._load

    def note(handler: RunAgentHandler, agent_id: str, digest: str = "") -> object:
        loaded_on.append(threading.current_thread().name)
        return load(handler, agent_id, digest)

    monkeypatch.setattr(RunAgentHandler, "_load", note)
    handler = RunAgentHandler(process())
    begun = handler.take(RunAgentMessage(run_id=run.run_id, agent_id="another", thread_id=run.thread_id))
    assert begun is not None
    house.runner.journal.loop.run(handler.work_off(begun), 20)

    assert run.result(20).status == "succeeded"
    assert begun.context.lease.agent_id == "tester"
    assert len(loaded_on) == 2
    assert "callboard-commit" not in loaded_on


def test_a_claim_that_is_rolled_back_and_made_again_has_its_quarantine_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.agent()
    house.model.script([Turn(text="whole")])
    run = house.run(detached=True)
    change(house, run, crashes=ALWAYS_SUSPECT_AFTER)
    journal = house.runner.journal
    claim_once = journal._claim

    def claim_twice(connection: Connection, run_id: str, begin: Any) -> Any:
        connection.exec_driver_sql("SAVEPOINT first_time")
        assert claim_once(connection, run_id, begin) is not None
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT first_time")
        return claim_once(connection, run_id, begin)

    monkeypatch.setattr(journal, "_claim", claim_twice)
    handler = RunAgentHandler(process())
    row_now = row(house, run)
    message = RunAgentMessage(
        run_id=run.run_id, agent_id="tester", thread_id=run.thread_id, definition_digest=row_now.definition_digest
    )
    begun = handler.take(message)
    assert begun is not None
    house.runner.journal.loop.run(handler.work_off(begun), 20)

    assert run.result(20).status == "succeeded"
    assert desk().quarantine("run_of_another")
    desk().end_quarantine("run_of_another")
