"""Every caller's call of a tool passes the same stages in the same order, and the first that refuses it is the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client

import bus.journal.log.writer
import bus.journal.ownership.leases
from agents.compatibility import compatible_work
from agents.errors import OutputUnfit
from agents.governance.guardrails.guardrails import Guardrails
from agents.models.scripted import ScriptedModel
from agents.runner import Runner
from agents.steps import stages
from agents.steps.call_record import CallDecision
from agents.steps.stages import CallRequest, Stage
from agents.testing import Call, Turn
from agents.tools.call_context import ToolContext, current_call
from agents.tools.results import validate_output
from agents.tools.tool import Tool, tool
from bus.journal.approvals import Decision
from bus.journal.errors import PrincipalDisabled
from bus.journal.owner import Commit, Lease, StepStarted
from bus.payloads import ToolResultPayload, encode
from cli.main import status_of
from cli.mcp.stdio import stdio_service
from config.database.errors import DatabaseBusy
from config.database.migrate import migrate
from config.errors import ModelVisible, ToolFailed
from config.policy_decision import CallFacts, PolicyDecision, Verdict
from config.settings import Settings
from web.app import create_app
from web.mcp.errors import name_of
from web.mcp.server import build_server

pytestmark = pytest.mark.parity

SECRET = "violet-otter"
STAGES = ["authorise", "validate", "policy", "recall", "approval", "journal", "act", "validate output", "redact"]
NAMES: dict[Stage, str] = {
    stages.authorise: "authorise",
    stages.validate: "validate",
    stages.judge: "policy",
    stages.recall: "recall",
    stages.approve: "approval",
}
JOURNALLING = ((bus.journal.log.writer, "record"), (bus.journal.ownership.leases, "start_steps"))
"""What writes the start of a call, for an agent's and for a run of kind ``tool``."""
passed: list[str] = []
"""The stages of the present test's call, as it passes them."""
called: list[ToolContext] = []
failing: set[str] = set()
"""The stages at which the call is refused."""


@tool(effect="pure")
def look(number: int) -> str:
    """Look something up.

    Args:
        number: which one.
    """
    passed.append("act")
    called.append(current_call())
    if "act" in failing:
        raise ToolFailed(f"the shop of {SECRET} is closed")
    return f"{SECRET} {number}"


class KeptBack(ModelVisible):
    """A guardrail keeps a result back."""

    code = "kept_back"


@dataclass(frozen=True)
class RecordingPolicy:
    verdict: Verdict = Verdict.ALLOW
    version: str = "1"
    offers_sticky: bool = False

    def decide(self, facts: CallFacts) -> PolicyDecision:
        is_call = facts.point == "tool"
        verdict = self.verdict if is_call else Verdict.ALLOW
        return PolicyDecision(verdict=verdict, rule="shop", version=self.version)


def redacted(_guardrails: Guardrails, tool: str, result: Any) -> Any:
    del tool
    passed.append("redact")
    if "redact" in failing:
        raise KeptBack("it has a secret.")
    return result.replace(SECRET, "[redacted]")


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record each stage, and let it fail where ``failing`` says so."""
    passed.clear()
    called.clear()
    failing.clear()
    recording_stages = tuple(_recording(stage, NAMES[stage]) for stage in stages.STAGES)
    monkeypatch.setattr(stages, "STAGES", recording_stages)
    verdicts = {"policy": Verdict.BLOCK, "approval": Verdict.REQUIRE_APPROVAL}

    def guarded(loaded: Any, context: Any, *more: Any) -> Any:
        verdict = next((verdicts[stage] for stage in failing if stage in verdicts), Verdict.ALLOW)
        context.policy = RecordingPolicy(verdict)
        return compatible_work(loaded, context, *more)

    def checked(tool: Tool, result: Any) -> None:
        passed.append("validate output")
        if "validate output" in failing:
            raise OutputUnfit("the result does not fit.")
        validate_output(tool, result)

    monkeypatch.setattr("agents.execution.compatible_work", guarded)
    monkeypatch.setattr(Guardrails, "output", redacted)
    monkeypatch.setattr(Guardrails, "text", lambda _, text: text.replace(SECRET, "[redacted]"))
    monkeypatch.setattr("agents.steps.call_work.validate_output", checked)
    monkeypatch.setattr(Tool, "may_be_called_with", lambda *_: "authorise" not in failing)
    record, start = (getattr(module, name) for module, name in JOURNALLING)

    def recording(connection: Any, run: Any, fence: int, change: Commit, *more: Any) -> Any:
        _journal(change.started)
        return record(connection, run, fence, change, *more)

    def starting(connection: Any, run_id: str, fence: int, started: Sequence[StepStarted]) -> None:
        _journal(started)
        start(connection, run_id, fence, started)

    monkeypatch.setattr("bus.journal.log.writer.record", recording)
    monkeypatch.setattr("bus.journal.ownership.leases.start_steps", starting)


def _recording(stage: Stage, name: str) -> Stage:
    def recording(request: CallRequest, decision: CallDecision) -> CallDecision:
        passed.append(name)
        return stage(request, decision)

    return recording


def _journal(started: Sequence[StepStarted]) -> None:
    """Record that a call's start is about to be committed, in a transaction that fails where it should."""
    if any(step.kind == "tool" and step.status == "started" for step in started):
        passed.append("journal")
        if "journal" in failing:
            failing.remove("journal")  # the second try succeeds
            raise DatabaseBusy("the database is locked.")


# --- the doors ----------------------------------------------------------------------------------


@dataclass
class Place:
    """An installation with one agent, and the code of the error that a call through a door ends with."""

    settings: Settings
    model: ScriptedModel
    capture: pytest.CaptureFixture[str]
    events: list[bytes] = field(default_factory=list)

    def agents_call(self, arguments: Mapping[str, Any]) -> str | None:
        self.model.script(Turn(calls=(Call(name="look", arguments=arguments),)), Turn(text="Done."))
        with self.open() as runner:
            handle = runner.run("Look.", "tester")
            handle.result(30)
            codes = [event.code for event in handle.events() if isinstance(event, ToolResultPayload)]
            return codes[0] if codes else handle.result(5).reason

    def execute(self, arguments: Mapping[str, Any]) -> str | None:
        with self.open() as runner:
            app = create_app(self.settings, runner)
            body = {"tool_name": "look", "arguments": arguments}
            answer = app.test_client().post("/execute", json=body, headers={"Idempotency-Key": "one"})
            while answer.status_code == 202:
                answer = app.test_client().post("/execute", json=body, headers={"Idempotency-Key": "one"})
            app.extensions["callboard"].close()
            assert answer.json is not None
            code = answer.json.get("code")
            return str(code) if code is not None else None

    def terminal(self, arguments: Mapping[str, Any]) -> str | None:
        status = status_of(["tools", "call", "look", orjson.dumps(arguments).decode(), "--json", "--wait"])
        events = [orjson.loads(line) for line in self.capture.readouterr().out.splitlines()]
        self.keep()
        assert status == (0 if events[-1]["status"] == "succeeded" else 1)
        return events[-1].get("reason")

    def call_tool(self, arguments: Mapping[str, Any]) -> str | None:
        with self.open() as runner:
            return runner.call_tool("look", arguments).result(30).reason

    def mcp(self, arguments: Mapping[str, Any], mode: str = "legacy") -> str | None:
        with self.open() as runner:
            service = stdio_service(runner)

            async def called() -> dict[str, Any]:
                server = await service.loop.wait(build_server, service)
                async with Client(server, mode=mode) as client:
                    answer = await client.call_tool("look", dict(arguments))
                    while answer.structured_content["status"] in ("queued", "running", "waiting"):
                        again = {"run_id": answer.structured_content["run_id"], "wait_s": 20}
                        answer = await client.call_tool("run_status", again)
                    return dict(answer.structured_content)

            state = service.loop.run(called(), 40)
            assert (state["status"] == "succeeded") == ("code" not in state)
            return state.get("code")

    def mcp_since_2026(self, arguments: Mapping[str, Any]) -> str | None:
        return self.mcp(arguments, "2026-07-28")

    def open(self) -> _Opened:
        return _Opened(self)

    def keep(self) -> None:
        """Keep the events of every run, as they are stored."""
        with self.open():
            pass


class _Opened:
    def __init__(self, installation: Place) -> None:
        self.place = installation
        self.runner = Runner.open(installation.settings)

    def __enter__(self) -> Runner:
        return self.runner

    def __exit__(self, *_: object) -> None:
        for run in self.runner.journal.readers.runs.newest(self.runner.principal):
            handle = self.runner.handle(run["run_id"])
            self.place.events += [encode(event, handle.run_id, handle.thread_id) for event in handle.events()]
        self.runner.settle(10)
        self.runner.close()


DOORS = {
    "an agent's call": Place.agents_call,
    "POST /execute": Place.execute,
    "the terminal": Place.terminal,
    "Runner.call_tool": Place.call_tool,
    "MCP's tools/call": Place.mcp,
    "MCP's tools/call of 2026-07-28": Place.mcp_since_2026,
}
Door = Callable[[Place, Mapping[str, Any]], str | None]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    model, before = ScriptedModel(), Path.cwd()
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "tester.yaml").write_text(
        f"name: Tester\nmodel: {model.name}\nsystem_prompt: You look.\ntools: ['{__name__}:look']\n"
    )
    for name, value in (("STATE_DIR", tmp_path / "state"), ("AGENTS_DIR", tmp_path / "agents")):
        monkeypatch.setenv(f"CALLBOARD_{name}", str(value))
    monkeypatch.setenv("CALLBOARD_DEFAULT_AGENT", "tester")
    monkeypatch.setenv("CALLBOARD_DISABLED_PRINCIPAL", "fail")
    settings = Settings(_env_file=None)  # type: ignore[call-arg]  # pydantic-settings' own
    migrate(settings)
    yield Place(settings, model, capsys)
    os.chdir(before)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_call_has_the_contexts_whichever_way_it_came(
    door: Door, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_APP_ID", "shop")
    monkeypatch.setenv("CALLBOARD_ENVIRONMENT", "production")
    place.settings = Settings(_env_file=None)  # type: ignore[call-arg]  # pydantic-settings' own

    assert door(place, {"number": 7}) is None

    with place.open() as runner:
        (run,) = runner.journal.readers.runs.newest(runner.principal)
        record = runner.journal.readers.runs.get(runner.principal, run["run_id"])
    shop = {"app_id": "shop", "environment": "production", "initiator_id": "local", "trace_id": run["trace_id"]}
    assert (record["context"], record["security_context"]["initiator_id"]) == (shop, "local")
    assert record["security_context"]["token_ref"] in ("process", "none")
    assert [call.golden.as_json() for call in called if call.golden is not None] == [shop]


def reject_what_is_asked(settings: Settings, is_over: threading.Event) -> None:
    """Reject the first question that a run asks, as another person would."""
    runner = Runner.open(settings, inline=False)
    while not is_over.wait(0.05):
        for approval in runner.journal.readers.runs.inbox(runner.principal)[0]:
            runner.handle(approval["run_id"]).decide(approval["approval_id"], Decision(decision="reject"), by="ann")


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_call_passes_every_stage_in_order(door: Door, place: Place) -> None:
    assert door(place, {"number": 7}) is None

    assert passed == STAGES
    assert SECRET.encode() not in b"".join(place.events)


REFUSED_AT = {
    "authorise": "role_missing",
    "validate": "arguments_invalid",
    "policy": "call_blocked",
    "act": "tool_failed",
    "validate output": "output_unfit",
    "redact": "kept_back",
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(("stage", "code"), REFUSED_AT.items())
def test_after_the_stage_that_refuses_a_call_nothing_happens(door: Door, stage: str, code: str, place: Place) -> None:
    failing.add(stage)
    # The MCP server checks arguments against the listed schema, so that such a call does not become a run.
    is_mcp = door in (Place.mcp, Place.mcp_since_2026)

    error_code = door(place, {"number": "seven"} if stage == "validate" else {"number": 7})

    assert error_code == (name_of(code) if is_mcp else code)
    expected = [] if is_mcp and stage == "validate" else STAGES[: STAGES.index(stage) + 1]
    is_made = "act" in expected
    # A call that is refused is recorded with its refusal, without a start of its own to be resumed.
    assert [step for step in passed if is_made or step != "journal"] == expected
    assert SECRET.encode() not in b"".join(place.events)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_before_every_stage_the_principal_is_looked_up(
    door: Door, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.execution.require_enabled", _refuse)

    assert door(place, {"number": 7}) == "principal_disabled"

    assert passed == []


def _refuse(lease: Lease, _process: object) -> None:
    raise PrincipalDisabled(principal=lease.principal)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_call_that_a_person_rejects_is_not_made(door: Door, place: Place) -> None:
    failing.add("approval")
    is_over = threading.Event()
    person = threading.Thread(target=reject_what_is_asked, args=(place.settings, is_over))
    person.start()
    try:
        assert door(place, {"number": 7}) == "call_rejected"
    finally:
        is_over.set()
        person.join()

    assert passed == STAGES[: STAGES.index("approval") + 1]


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_call_is_made_only_once_its_start_is_committed(door: Door, place: Place) -> None:
    failing.add("journal")

    assert door(place, {"number": 7}) is None

    assert passed.count("journal") == 2
    assert [stage for stage in passed if stage in ("journal", "act")] == ["journal", "journal", "act"]
