"""A process that waits for its run resumes it, whatever the database does and whichever process had it in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from agents.compatibility import try_load
from agents.execution import execute
from agents.handle import RunHandle
from agents.models import lite
from agents.models.call import ModelCall
from agents.process import Process, current_process
from agents.testing import AgentKit, Call, Turn
from agents.workflows.nodes import wait
from bus.journal.approvals import Decision
from bus.journal.owner import Claim, ClaimTerms
from bus.journal.states.crashes import ALWAYS_SUSPECT_AFTER
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import ApprovalPayload, ErrorPayload, Payload, StatusPayload
from config.database.errors import DatabaseBusy, DatabaseUnreachable
from config.database.tables import runs
from handlers import run_agent
from handlers import run_agent as inline
from handlers.run_agent import InlineRun
from handlers.worker import run_agent_handler
from handlers.worker.run_agent_handler import RunAgentHandler
from handlers.worker.slots import slot_pool
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import drain
from tests.agents.sample_tools import pay
from tests.app_harness import AppHarness
from tests.bus.journal_harness import claim, lose_owner, suspend


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("TURN_S", "WAITING_S", "PAUSE_S"):
        monkeypatch.setattr(inline, pause, 0.01)


class Looks:
    """What the handler has seen of the state of its run, or was to see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[str | None] = []
        self._changed = threading.Condition()
        read = InlineRun.read_status

        async def look(run: InlineRun) -> str | None:
            return self._note(await read(run))

        monkeypatch.setattr(InlineRun, "read_status", look)

    def _note(self, status: str | None) -> str | None:
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


def asks_first(call: ModelCall) -> Turn:
    """Have the tool called whose outcome a person has to say."""
    roles = [message["role"] for message in call.messages]
    return Turn(text="done") if roles[-1] == "tool" else Turn(calls=[Call(name="pay", arguments={})])


def answer(run: RunHandle) -> None:
    (approval,) = run.approvals()
    run.decide(approval["approval_id"], Decision(decision="take_as_done", result="paid"))


def row(kit: AgentKit, run: RunHandle) -> Any:
    with kit.runner.journal.database.read() as connection:
        return connection.execute(select(runs).where(runs.c.id == run.run_id)).one()


def change(kit: AgentKit, run: RunHandle, **values: Any) -> None:
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run.run_id).values(**values))


def failing(times: int, error: Exception, work: Callable[..., Any]) -> tuple[Callable[..., Any], threading.Event]:
    """Return ``work`` as it fails so many times, and what is set when it has."""
    left, is_over = iter(range(times)), threading.Event()

    def shaky(*args: Any) -> Any:
        if next(left, None) is not None:
            raise error
        is_over.set()
        return work(*args)

    return shaky, is_over


def test_a_message_whose_run_cannot_be_claimed_is_done_with_one_line_and_the_run_stays_queued(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = kit.run(detached=True)
    monkeypatch.setattr(run_agent_handler, "PATIENCE_S", 0.0)
    full = DatabaseBusy("the database is too slow for more runs in this process; the run stays queued.")
    monkeypatch.setattr(RunAgentHandler, "claim", failing(10**6, full, RunAgentHandler.claim)[0])
    wire = RunAgentMessage.of_run(row(kit, run)).to_wire()

    run_agent.run_agent(wire)

    (line,) = [record for record in caplog.records if record.name == run_agent_handler.__name__]
    assert line.levelname == "WARNING"
    assert line.getMessage() == f"could not take a queued run run_id={run.run_id}: {full}"
    assert line.exc_info is None
    assert row(kit, run).status == "queued"


def test_a_message_in_the_wrong_queue_is_published_again_to_that_of_its_run(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.agent(queue="gpu")
    run = kit.run(detached=True)
    published: list[str] = []
    monkeypatch.setattr(kit.runner.journal.live.relay, "publish_soon", published.append)

    run_agent.run_agent(RunAgentMessage.of_run(row(kit, run)).to_wire())

    assert row(kit, run).status == "queued"
    assert published == [run.run_id]


def test_a_program_that_waits_runs_its_run_itself_whatever_the_queue(kit: AgentKit) -> None:
    kit.agent(queue="gpu")
    kit.model.script(Turn(text="done"))

    run = kit.run()

    assert run.result(30).status == "succeeded"
    assert row(kit, run).queue == "gpu"


@pytest.mark.parametrize("stage", ["status", "hold"])
def test_a_database_that_fails_for_a_moment_ends_no_waiting(
    kit: AgentKit, looks: Looks, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    kit.agent(tools=[pay])
    kit.model.respond = asks_first
    first = kit.run(thread_id="talk")
    looks.until("waiting")

    if stage == "status":
        status, is_over = failing(3, DatabaseUnreachable("for a moment"), InlineRun.read_status)
        monkeypatch.setattr(InlineRun, "read_status", lambda run: status(run))
    else:
        unowned = kit.runner.journal.owner.unowned
        shaky_hold, is_over = failing(3, DatabaseBusy("for a moment"), unowned.defer_polling)
        monkeypatch.setattr(unowned, "defer_polling", shaky_hold)
        monkeypatch.setattr(kit.runner.journal, "settings", kit.settings.model_copy(update={"beat_s": 0.0}))
    second = kit.run("And now?", thread_id="talk")
    assert is_over.wait(20)
    answer(first)

    assert first.result(20).status == "succeeded"
    looks.until("waiting")
    answer(second)
    assert second.result(20).status == "succeeded"


class Stalled:
    """A run in the middle of its first answer; the second one comes at once."""

    def __init__(self, kit: AgentKit, looks: Looks) -> None:
        self.kit, self.looks = kit, looks
        self.journal = kit.runner.journal
        kit.model.script(Turn(text=["never ", "whole"], stall_after=2), Turn(text="whole"))
        self.run = kit.run()
        for payload in self.run.events():
            if payload.event_type == "response":
                break

    def lose_to_another(self) -> None:
        """Have another process take the run, as it does after this one's lease expired."""
        lose_owner(self.journal.database, self.run.run_id)
        assert claim(self.journal.database, self.run.run_id, "own_other", 60) is not None
        self.journal.owner.lease_manager._beat()

    def fall_silent(self) -> None:
        """Have this process write nothing, as it does when no heartbeat comes through."""
        suspend(self.journal.owner.lease_manager)


@pytest.fixture
def stalled(kit: AgentKit, looks: Looks) -> Iterator[Stalled]:
    yield Stalled(kit, looks)
    kit.model.resume(0)


def test_a_run_continues_under_its_fence_after_its_heartbeats_failed(stalled: Stalled, kit: AgentKit) -> None:
    stalled.fall_silent()
    change(stalled.kit, stalled.run, lease_until=0)
    kit.model.resume()
    stalled.journal.owner.lease_manager._beat()

    assert stalled.run.result(20).status == "succeeded"
    assert (row(stalled.kit, stalled.run).fence, row(stalled.kit, stalled.run).crashes) == (1, 0)


@pytest.mark.parity
@pytest.mark.parametrize(("crashes", "end"), [(1, "succeeded"), (ALWAYS_SUSPECT_AFTER, "dead")])
def test_a_run_another_process_took_is_left_to_it_until_that_is_lost_too(
    stalled: Stalled, crashes: int, end: str
) -> None:
    stalled.lose_to_another()
    stalled.looks.until("running", times=3)
    assert row(stalled.kit, stalled.run).owner == "own_other"

    change(stalled.kit, stalled.run, lease_until=0, crashes=crashes)

    assert stalled.run.result(20).status == end
    assert row(stalled.kit, stalled.run).crashes == crashes + 1


def test_waiting_ends_when_another_process_ends_the_run(stalled: Stalled) -> None:
    stalled.lose_to_another()
    stalled.looks.until("running")

    change(stalled.kit, stalled.run, status="succeeded")

    stalled.kit.runner.settle(20)


@pytest.mark.parametrize("leave", ["close", "release_all"])
def test_a_process_that_leaves_waits_for_no_run(kit: AgentKit, looks: Looks, leave: str) -> None:
    kit.agent(tools=[pay])
    kit.model.respond = asks_first
    run = kit.run()
    looks.until("waiting")

    kit.runner.journal.loop.call_soon(getattr(kit.runner.journal.owner.lease_manager, leave))

    kit.runner.settle(20)
    assert run.status() == "waiting"


# --- what observers get of a run that waited for a person -----------------------------------------


class Witness(AgentObserver):
    """Remembers what it received."""

    def __init__(self) -> None:
        self.received: list[Payload] = []

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        self.received.append(payload)


@pytest.mark.parity
def test_observers_get_the_answers_of_a_person_in_order(kit: AgentKit, looks: Looks) -> None:
    """Two questions: the first answer alone does not bring the run back to the queue."""
    kit.agent(tools=[pay])
    kit.model.respond = asks_twice
    witness = Witness()
    run = kit.run(observers=("sse", witness))
    looks.until("waiting")

    for approval in run.approvals():
        run.decide(approval["approval_id"], Decision(decision="take_as_done", result="paid"))
    assert run.result(20).status == "succeeded"
    assert drain(20) == []

    logged = [(payload.seq, payload.event_type) for payload in run.events()]
    accepted, *later = logged  # observers join a run when it begins
    assert accepted == (1, "status")
    assert [(payload.seq, payload.event_type) for payload in witness.received] == later
    assert [payload.seq for payload in witness.received] == list(range(2, len(logged) + 1))
    decisions = [payload.decision for payload in witness.received if isinstance(payload, ApprovalPayload)]
    assert decisions == [None, None, "take_as_done", "take_as_done"]


def test_what_its_writer_showed_to_viewers_is_not_streamed_again(
    kit: AgentKit, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.agent(tools=[pay])
    kit.model.respond = asks_first
    hot_log = kit.runner.journal.live.hot_log
    appended: list[tuple[str, int]] = []
    append = hot_log.append

    def noting(run_id: str, seq: int, line: bytes) -> None:
        appended.append((run_id, seq))
        append(run_id, seq, line)

    monkeypatch.setattr(hot_log, "append", noting)
    run = kit.run(observers=("sse",))
    looks.until("waiting")
    answer(run)
    assert run.result(20).status == "succeeded"

    numbers = [seq for run_id, seq in appended if run_id == run.run_id]
    assert numbers == sorted(set(numbers))


def asks_twice(call: ModelCall) -> Turn:
    """Have a tool called twice at once whose outcome a person has to say."""
    roles = [message["role"] for message in call.messages]
    if roles[-1] == "tool":
        return Turn(text="done")
    return Turn(calls=[Call(name="pay", arguments={}), Call(name="pay", arguments={})])


def test_a_forged_message_imports_nothing_while_others_wait_for_their_commits(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.model.script(Turn(text="whole"))
    run = kit.run(detached=True)
    loaded_on: list[str] = []

    def note(process: Process, agent_id: str, digest: str = "") -> object:
        loaded_on.append(threading.current_thread().name)
        return try_load(process, agent_id, digest)

    monkeypatch.setattr(run_agent_handler, "try_load", note)
    begun = RunAgentHandler(current_process()).take(
        RunAgentMessage(run_id=run.run_id, agent_id="another", thread_id=run.thread_id)
    )
    assert begun is not None
    kit.runner.journal.loop.run(execute(kit.runner.journal, begun), 20)

    assert run.result(20).status == "succeeded"
    assert begun.context.lease.agent_id == "tester"
    assert len(loaded_on) == 2
    assert "callboard-commit" not in loaded_on


def test_a_time_that_a_workflow_waits_for_is_noticed_without_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "IN_PLACE_S", 0.0)
    nodes = [{"id": "start", "type": "START"}, {"id": "rest", "type": "WAIT", "config": {"seconds": 0.1}}]
    edges = [{"source": "start", "target": "rest"}, {"source": "rest", "target": "end"}]

    with AgentKit() as kit:
        kit.workflow(nodes=[*nodes, {"id": "end", "type": "END"}], edges=edges)
        played = kit.played(kit.start())

    assert played.end.status == "succeeded"
    assert ("waiting", "signal") in [(event.status, event.reason) for event in played.of(StatusPayload)]


def test_a_claim_that_is_rolled_back_and_made_again_has_its_quarantine_once(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.model.script(Turn(text="whole"))
    run = kit.run(detached=True)
    change(kit, run, crashes=ALWAYS_SUSPECT_AFTER)
    journal = kit.runner.journal
    claim = journal.owner.claim_and_begin

    def claim_twice(terms: ClaimTerms, begin: Any) -> Any:
        def begin_twice(claimed: Claim) -> Any:
            claimed.connection.exec_driver_sql("SAVEPOINT first_time")
            assert begin(claimed) is not None
            claimed.connection.exec_driver_sql("ROLLBACK TO SAVEPOINT first_time")
            return begin(claimed)

        return claim(terms, begin_twice)

    monkeypatch.setattr(journal.owner, "claim_and_begin", claim_twice)
    begun = RunAgentHandler(current_process()).take(RunAgentMessage.of_run(row(kit, run)))
    assert begun is not None
    kit.runner.journal.loop.run(execute(kit.runner.journal, begun), 20)

    assert run.result(20).status == "succeeded"
    assert slot_pool().admit("run_of_another", is_suspect=True)
    slot_pool().leave("run_of_another")


@pytest.mark.parametrize(
    "broken_by", [ImportError("No module named 'aiohttp'"), AttributeError("no 'x' behind sk-ABCDEFGHIJKLMNOPQRSTUVWX")]
)
def test_a_run_ends_with_the_reason_where_litellm_cannot_be_imported(
    harness: AppHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken_by: Exception
) -> None:
    def broken() -> None:
        raise broken_by

    monkeypatch.setattr(lite, "process_import", lite.LiteLLMImport(broken))

    results = [harness.run("Hello").result(20) for _ in range(2)]

    assert [result.status for result in results] == ["failed", "failed"]
    error = next(event for event in harness.events(harness.run("Hello")) if isinstance(event, ErrorPayload))
    assert error.code == "model_failed"
    assert f"LiteLLM cannot be imported here ({type(broken_by).__name__}: " in error.message
    assert "Install the release that requirements.lock names" in error.message
    assert "ABCDEFGHIJKLMNOP" not in error.message
    assert len([record for record in caplog.records if record.exc_info and "LiteLLM" in record.message]) == 1
