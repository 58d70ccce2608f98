"""The Python client on a web process and a worker: both clients, every verb, restarts that no caller notices."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard_client import (
    ApprovalEvent,
    Callboard,
    ControlEvent,
    EndEvent,
    RequestRefused,
    ResponseEvent,
    StatusEvent,
    ToolEvent,
    ToolResultEvent,
    UnknownEvent,
    WithdrawnEvent,
)
from config.folders import ROOT
from config.identity.principal import Principal
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.clients.python.blocking import KINDS, client_of
from tests.credentials import key_of
from tests.fleet import Worker, environment
from tests.journeys.outside_tools import arrived
from tests.journeys.test_web_killed import MortalWeb
from tests.journeys.web_server import Web
from tests.model_server import Call, Turn
from tests.ports import free_port
from tests.processes import run_python
from tests.test_docs import examples

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

SUMS = "name: Sums\nmodel: demo/instant\ntools: [calculator]\nsystem_prompt: You answer.\n"
PAYS = "tools: ['tests.journeys.outside_tools:unsafe']\ntool_overrides: {unsafe: {timeout_s: 1}}"
WORDS = [f"word{number} " for number in range(44)]
SECRET = "5f" * 32
RESTARTS = (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)


@pytest.fixture(scope="module")
def web(fleet_harness: AppHarness, worker: Worker) -> Iterator[Web]:
    """A web process beside a worker."""
    (Path(fleet_harness.settings.agents_dir.split(":")[0])).mkdir(exist_ok=True)
    (Path(fleet_harness.settings.agents_dir.split(":")[0]) / "sums.yaml").write_text(SUMS)
    with MortalWeb(fleet_harness, "web") as started:
        yield started


@pytest.fixture(params=KINDS)
def callboard(request: pytest.FixtureRequest, web: Web) -> Iterator[Callboard]:
    """A client of each kind in turn."""
    with client_of(request.param, web.address) as client:
        yield client


def test_a_run_is_started_followed_and_waited_for(callboard: Callboard) -> None:
    handle = callboard.run("sums", "What is 17 * 23?", metadata={"order": 17})

    events = list(handle.events())
    end = handle.result()

    assert events[-1] == end
    assert (end.status, end.run_id, end.thread_id) == ("succeeded", handle.run_id, handle.thread_id)
    assert "391" in end.output
    assert end.usage
    assert {StatusEvent, ResponseEvent, ToolEvent, ToolResultEvent, EndEvent} <= {type(event) for event in events}
    assert not any(isinstance(event, UnknownEvent) for event in events)
    assert list(handle.events(after=events[2].seq)) == events[3:]
    assert list(callboard.handle(handle.run_id).events(after=end.seq)) == []
    assert callboard.handle(handle.run_id).result() == end
    run = callboard.runs.get(handle.run_id)
    assert (run.agent, run.output, run.metadata, run.detached) == ("sums", end.output, {"order": 17}, False)


def test_a_result_is_waited_for_without_the_events(callboard: Callboard) -> None:
    handle = callboard.run("sums", "What is 17 * 23?", detached=True)

    assert handle.result(timeout_s=60).status == "succeeded"
    assert handle.status() == "succeeded"
    assert callboard.runs.get(handle.run_id).detached


def test_a_key_starts_one_run(callboard: Callboard) -> None:
    key = f"order {id(callboard)}"

    first, second = (callboard.run("sums", "What is 2 + 2?", idempotency_key=key) for _ in range(2))

    assert first.run_id == second.run_id
    with pytest.raises(RequestRefused) as raised:
        callboard.run("sums", "What is 3 + 3?", idempotency_key=key)
    assert (raised.value.code, raised.value.status) == ("idempotency_conflict", 409)


def test_a_run_is_stopped(callboard: Callboard, fleet_harness: AppHarness) -> None:
    fleet_harness.agent("timeouts: {first_token_s: 300, between_chunks_s: 300}")
    fleet_harness.model.script([Turn(text=["one ", "two ", "three"], stall_after=3)])
    handle = callboard.run("tester", "Hello")
    events = iter(handle.events())
    next(event for event in events if isinstance(event, ResponseEvent))

    assert handle.cancel() in ("running", "cancelled")

    assert handle.result(60).status == "cancelled"
    assert handle.cancel() == "cancelled"
    fleet_harness.model.forget()


def test_a_run_is_steered_and_paused_and_repeated_from_a_step(callboard: Callboard, fleet_harness: AppHarness) -> None:
    fleet_harness.agent("timeouts: {first_token_s: 300, between_chunks_s: 300}")
    stalled = Turn(text=["one ", "two ", "three"], stall_after=2)
    fleet_harness.model.script([stalled, Turn(text="Un."), Turn(text="Uno.")])
    handle = callboard.run("tester", "Count.")
    events = iter(handle.events())
    next(event for event in events if isinstance(event, ResponseEvent))

    steered = handle.steer("In French.", expected_status="running")
    paused = handle.pause()
    accepted = [next(event for event in events if isinstance(event, ControlEvent)) for _ in range(2)]
    fleet_harness.model.resume()
    next(event for event in events if isinstance(event, StatusEvent) and event.status == "waiting")
    resumed = handle.resume(expected_status="waiting")
    end = handle.result(60)
    again = handle.rerun(2)

    assert [control.status for control in (steered, paused, resumed)] == ["running", "running", "queued"]
    assert [event.control_id for event in accepted] == [steered.control_id, paused.control_id]
    assert end.output == "Un."
    assert fleet_harness.model.requests[-1].body["messages"][-1] == {"role": "user", "content": "In French."}
    assert (again.result(60).output, again.thread_id != handle.thread_id) == ("Uno.", True)
    run = callboard.runs.get(again.run_id)
    assert (run.rerun_of, run.from_step, run.mode) == (handle.run_id, 2, "recorded")
    fleet_harness.model.forget()


def test_a_question_is_answered(callboard: Callboard, fleet_harness: AppHarness, tmp_path: Path) -> None:
    fleet_harness.agent(PAYS, "payer")
    call = Call(name="unsafe", arguments={"ledger": str(tmp_path / "ledger")})
    fleet_harness.model.script([Turn(calls=[call]), Turn(text="Done.")])
    handle = callboard.run("payer", "Pay.")
    approval = next(event for event in handle.events() if isinstance(event, ApprovalEvent))

    [question] = handle.approvals()
    decided = handle.decide(question.approval_id, "take_as_done", result={"paid": 7}, message="the bank has it")
    end = handle.result(60)

    assert (question.approval_id, question.name) == (approval.approval_id, "unsafe")
    assert question.decisions == ["run_again", "take_as_done", "fail"]
    assert (decided.decision, decided.run_id, decided.status) == ("take_as_done", handle.run_id, "queued")
    assert (end.status, end.output) == ("succeeded", "Done.")
    assert len(arrived(tmp_path / "ledger")) == 1
    assert handle.approvals() == []
    with pytest.raises(RequestRefused) as raised:
        handle.decide(question.approval_id, "fail")
    assert (raised.value.code, raised.value.facts["decision"]) == ("approval_decided", "take_as_done")
    fleet_harness.model.forget()


def test_threads_are_created_read_and_deleted(callboard: Callboard) -> None:
    thread_id = callboard.threads.create(agent="sums", title="Sums of today")
    runs = [callboard.run("sums", "What is 1 + 1?", thread_id=thread_id)]
    runs[0].result(60)
    runs.append(callboard.run("sums", "What is 2 + 1?", thread_id=thread_id))
    runs[1].result(60)

    first = callboard.threads.messages(thread_id, limit=2)
    rest = callboard.threads.messages(thread_id, after=first.next)
    past = callboard.threads.messages(thread_id, at=first[-1].number)
    listed = callboard.runs.list(thread_id=thread_id, limit=1)

    assert [run.run_id for run in callboard.threads.get(thread_id).runs] == [run.run_id for run in runs]
    assert thread_id in [thread.thread_id for thread in callboard.threads.list(search="of today")]
    assert callboard.threads.summaries(thread_id) == []
    assert [message.role for message in first] == ["user", "assistant"]
    assert rest[-1].role == "assistant"
    assert [message.number for message in past] == [message.number for message in first]
    assert [run.run_id for run in listed] == [runs[1].run_id]
    assert [run.run_id for run in callboard.runs.list(thread_id=thread_id, before=listed.next)] == [runs[0].run_id]
    callboard.runs.delete(runs[0].run_id)
    callboard.threads.delete(thread_id)
    for gone in (lambda: callboard.threads.get(thread_id), lambda: callboard.threads.delete(thread_id)):
        with pytest.raises(RequestRefused, match="thread_unknown"):
            gone()


def test_agents_are_listed_with_their_problems(callboard: Callboard, fleet_settings: Settings) -> None:
    broken = Path(fleet_settings.agents_dir.split(":")[0]) / "broken.yaml"
    broken.write_text("name: Broken\n")

    listed, problems = callboard.agents.list(), callboard.agents.problems()
    broken.unlink()

    assert "sums" in [agent.id for agent in listed]
    assert [(problem.id, problem.code) for problem in problems] == [("broken", "definition_invalid")]
    assert callboard.agents.get("sums").tools == ["calculator"]


def test_what_the_server_refuses_is_an_error_with_its_code(callboard: Callboard) -> None:
    with pytest.raises(RequestRefused) as unknown:
        callboard.run("sumz", "Hello")
    with pytest.raises(RequestRefused) as empty:
        callboard.run("sums", " ")
    handle = callboard.run("sums", "What is 1 + 1?")
    with pytest.raises(RequestRefused) as ahead:
        list(handle.events(after=10_000))

    assert (unknown.value.code, unknown.value.status) == ("agent_unknown", 404)
    assert unknown.value.facts["agent_id"] == "sumz"
    assert (empty.value.code, ahead.value.code) == ("input_empty", "cursor_ahead")
    handle.result(60)


@pytest.mark.parametrize("page", ["clients/python/README.md", "docs/python.md"])
def test_the_examples_of_the_client_work(
    page: str,
    fleet_harness: AppHarness,
    worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes = [code for code in examples((ROOT / page).read_text(), "python") if "callboard_client" in code]
    monkeypatch.setenv("ENVELOPE_SECRET", SECRET)
    monkeypatch.setenv("MCP_ENVELOPE_HMAC_SECRET", f"main:{SECRET}")
    chosen = fleet_harness.settings.model_copy(update={"port": free_port(), "envelope_audience": "default"})

    with Web(chosen) as web:
        for code in codes:
            exec(code.replace("http://127.0.0.1:8000", web.address), {})  # the page's own code is what is tested
            assert "391" in capsys.readouterr().out
    assert codes


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_three_restarts_of_the_web_process_are_not_noticed(
    kind: str, fleet_harness: AppHarness, worker: Worker
) -> None:
    """One is stopped, one is killed, one is stopped; each time the next one begins seconds later, on the same port."""
    fleet_harness.agent(agent_id="slow")
    fleet_harness.model.respond = lambda body: Turn(text=WORDS, pace=4)
    web = MortalWeb(fleet_harness, f"restarted-{kind}")
    spoken = threading.Semaphore(0)
    restarts: list[signal.Signals] = []

    def restart_thrice() -> None:
        for number in RESTARTS:
            for _ in range(5):  # pieces that are seen before each restart
                assert spoken.acquire(timeout=60)
            if number == signal.SIGKILL:
                web.kill()
            else:
                web.process.send_signal(number)
                web.process.wait(20)
            web.__enter__()
            restarts.append(number)

    with web, client_of(kind, web.address) as callboard:
        restarting = threading.Thread(target=restart_thrice)
        restarting.start()
        handle = callboard.run("slow", "Hello")
        events = []
        for event in handle.events():
            events.append(event)
            if isinstance(event, ResponseEvent):
                spoken.release()
        restarting.join(60)
        again, end = list(callboard.handle(handle.run_id).events()), handle.result()
    fleet_harness.model.respond = None

    assert restarts == list(RESTARTS)
    assert events == again
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    pieces = [event.content for event in events if isinstance(event, ResponseEvent)]
    assert "".join(pieces) == end.output == "".join(WORDS)
    assert not any(isinstance(event, WithdrawnEvent) for event in events), "the worker ran on"


@pytest.fixture(scope="module")
def guarded_web(fleet_settings: Settings, worker: Worker) -> Iterator[Web]:
    """A web process that asks for credentials."""
    port = free_port()
    guarded = Web(fleet_settings.model_copy(update={"port": port, "auth": "required"}))
    guarded.log = fleet_settings.state / "guarded.log"
    with guarded:
        yield guarded


def revoke(settings: Settings, key: str) -> None:
    """Revoke a key in the terminal."""
    words = ("-P", "-m", "cli", "keys", "revoke", key.split("_")[1])
    ran = run_python(*words, env=environment(settings) | {"PYTHONPATH": str(ROOT)})
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_opens_the_server_and_its_revocation_ends_a_stream(
    kind: str, guarded_web: Web, fleet_harness: AppHarness
) -> None:
    fleet_harness.agent("timeouts: {first_token_s: 300, between_chunks_s: 300}")
    fleet_harness.model.script([Turn(text=["one ", "two ", "three"], stall_after=3)])
    key, rotated = (key_of(guarded_web.settings, Principal(id=f"shop-{kind}")) for _ in range(2))

    with client_of(kind, guarded_web.address, key) as callboard:
        handle = callboard.run("tester", "Hello")
        events = iter(handle.events())
        next(event for event in events if isinstance(event, ResponseEvent))
        revoke(guarded_web.settings, key)
        with pytest.raises(RequestRefused) as revoked:
            list(events)
    with client_of(kind, guarded_web.address) as stranger, pytest.raises(RequestRefused) as without:
        stranger.run("tester", "Hello")
    with client_of(kind, guarded_web.address, rotated) as again:
        resumed = again.handle(handle.run_id)
        resumed.cancel()
        assert resumed.result(60).status == "cancelled", "another key of that name has its runs"
    fleet_harness.model.forget()

    assert {error.value.status for error in (revoked, without)} == {401}
    assert {error.value.code for error in (revoked, without)} == {"unauthenticated"}
    assert key not in str(revoked.value)
