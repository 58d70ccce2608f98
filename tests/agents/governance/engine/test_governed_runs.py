"""Runs under a remote engine: it is asked before and after each call, and the stricter of both policies wins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from agents.catalogue import as_tool
from agents.governance.policy.policy_yaml import PolicySource
from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.payloads import ApprovalPayload, ErrorPayload, ToolPayload, ToolResultPayload
from config.database.tables import approvals, steps
from config.ids import canonical_digest
from config.policy_decision import CallFacts, PolicyDecision, Verdict
from tests.agents.governance.engine.engine_server import EngineServer

pytestmark = pytest.mark.parity

calls_made: list[Any] = []


@tool(effect="pure")
def look(name: str) -> dict[str, str]:
    """Look a person up."""
    calls_made.append(("look", name))
    return {"name": name, "phone": "555-0100"}


@tool(effect="unsafe")
def send(text: str) -> str:
    """Send a text."""
    calls_made.append(("send", text))
    return "sent"


@tool(effect="unsafe", confirm=True)
def pay(cents: int) -> str:
    """Pay."""
    calls_made.append(("pay", cents))
    return "paid"


@tool(effect="unsafe", confirm=True, sticky=("thread",))
def order(boxes: int) -> str:
    """Order."""
    calls_made.append(("order", boxes))
    return "ordered"


@pytest.fixture
def engine() -> Iterator[EngineServer]:
    calls_made.clear()
    with EngineServer() as server:
        yield server


@pytest.fixture
def kit(engine: EngineServer) -> Iterator[AgentKit]:
    with AgentKit(tools=[look, send, pay], settings={"governance_url": engine.url}) as agent_kit:
        yield agent_kit


def decisions(kit: AgentKit, run_id: str) -> list[dict[str, Any]]:
    """Return what was decided about the steps of a run, in order."""
    query = select(steps.c.decision_json).where(steps.c.run_id == run_id).order_by(steps.c.number)
    with kit.runner.journal.database.read() as connection:
        return [orjson.loads(row.decision_json) for row in connection.execute(query)]


def refuse(event_type: str, activity: str, answer: Any) -> Any:
    """Return a script with one answer for events of a type about an activity."""

    def respond(event: dict[str, Any]) -> Any:
        is_it = event["event_type"] == event_type and event.get("activity_type", "") == activity
        return answer if is_it else {"action": "continue"}

    return respond


def test_each_call_is_asked_about_before_and_after_it(kit: AgentKit, engine: EngineServer) -> None:
    kit.model.script(Turn(calls=[Call(name="look", arguments={"name": "Ann"})]), Turn(text="Her number is 555-0100."))

    handle = kit.run("Find Ann.")
    handle.result(30)
    kit.runner.settle(10)

    assert engine.types() == [
        "WorkflowStarted",
        "ActivityStarted model",
        "ActivityCompleted model",
        "ActivityStarted look",
        "ActivityCompleted look",
        "ActivityStarted model",
        "ActivityCompleted model",
        "WorkflowCompleted",
    ]
    assert engine.of("ActivityStarted", "look")[0]["activity_input"] == [{"name": "Ann"}]
    (completed,) = engine.of("ActivityCompleted", "look")
    assert completed["activity_output"] == {"name": "Ann", "phone": "555-0100"}
    assert completed["status"] == "completed"
    assert completed["activity_id"] == engine.of("ActivityStarted", "look")[0]["activity_id"]
    assert [decision["remote"] for decision in decisions(kit, handle.run_id)] == ["allow", "allow", "allow"]
    record = kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id)
    who = {name: value for name, value in record["security_context"].items() if name != "token_ref"}
    assert [(event["context"], event["security_context"]) for event in engine.events] == [(record["context"], who)] * 8


def test_the_decision_is_committed_before_the_call(kit: AgentKit, engine: EngineServer) -> None:
    seen: list[Any] = []

    @tool(effect="unsafe")
    def watch() -> str:
        """Read what was decided."""
        with kit.runner.journal.database.read() as connection:
            row = connection.execute(select(steps).where(steps.c.name == "watch")).one()
        seen.append((row.status, orjson.loads(row.decision_json)["remote"]))
        return "ok"

    kit.agent(tools=[watch])
    kit.model.script(Turn(calls=[Call(name="watch")]), Turn(text="done"))
    kit.play()

    assert seen == [("started", "allow")]


def test_a_stop_before_a_call_ends_the_run(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = refuse("ActivityStarted", "send", {"action": "stop", "reason": "Not today."})
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))

    played = kit.play()

    assert (played.end.status, played.end.reason, calls_made) == ("failed", "policy_refused", [])
    assert "Not today." in played.of(ErrorPayload)[-1].message


def test_a_stop_of_the_run_ends_it_before_the_model(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = refuse("WorkflowStarted", "", {"action": "stop", "reason": "Closed."})
    kit.model.script(Turn(text="never said"))

    played = kit.play()

    assert (played.end.status, played.end.reason, played.text) == ("failed", "policy_refused", "")


def test_a_stop_of_a_model_call_ends_the_run(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = refuse("ActivityStarted", "model", {"action": "stop"})
    kit.model.script(Turn(text="never said"))

    played = kit.play()

    assert (played.end.reason, played.text) == ("policy_refused", "")


def test_a_blocked_call_is_the_models_to_work_around(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = refuse("ActivityStarted", "send", {"verdict": "block", "reason": "Outside of hours."})
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="I cannot send it now."))

    played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert (result.outcome, calls_made, played.end.status) == ("refused", [], "succeeded")
    assert "Outside of hours." in result.result


def test_guardrails_redact_the_input_before_it_is_logged(kit: AgentKit, engine: EngineServer) -> None:
    redacted = {
        "input_type": "activity_input",
        "redacted_input": {"text": "call [REDACTED]"},
        "validation_passed": True,
    }
    engine.respond = refuse("ActivityStarted", "send", {"action": "continue", "guardrails": redacted})
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "call 555-0100"})]), Turn(text="done"))

    handle = kit.run()
    handle.result(30)

    assert calls_made == [("send", "call [REDACTED]")]
    (called,) = [event for event in handle.events() if isinstance(event, ToolPayload) and event.arguments]
    assert called.arguments == {"text": "call [REDACTED]"}
    assert decisions(kit, handle.run_id)[1]["verdict"] == "constrain"


@pytest.mark.parametrize("redaction", [{"text": 5}, {}, {"text": "a", "more": 1}])
def test_a_redacted_input_that_does_not_fit_is_no_call(kit: AgentKit, engine: EngineServer, redaction: Any) -> None:
    engine.respond = refuse(
        "ActivityStarted", "send", {"action": "continue", "guardrails": {"redacted_input": redaction}}
    )
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))

    (result,) = kit.play().of(ToolResultPayload)

    assert (result.outcome, calls_made) == ("refused", [])


def test_guardrails_that_do_not_pass_refuse_the_call(kit: AgentKit, engine: EngineServer) -> None:
    guardrails = {"validation_passed": False, "reasons": ["a card number"]}
    engine.respond = refuse("ActivityStarted", "send", {"action": "continue", "guardrails": guardrails})
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "4111"})]), Turn(text="done"))

    (result,) = kit.play().of(ToolResultPayload)

    assert (result.outcome, calls_made) == ("refused", [])
    assert "a card number" in result.result


def test_the_output_is_redacted_before_it_is_kept(kit: AgentKit, engine: EngineServer) -> None:
    guardrails = {"input_type": "activity_output", "redacted_input": {"name": "Ann", "phone": "[REDACTED]"}}
    engine.respond = refuse("ActivityCompleted", "look", {"action": "continue", "guardrails": guardrails})
    kit.model.script(Turn(calls=[Call(name="look", arguments={"name": "Ann"})]), Turn(text="done"))

    played = kit.play()

    assert played.results("look") == [{"name": "Ann", "phone": "[REDACTED]"}]
    assert "555-0100" not in str(played.events)


def test_a_result_that_the_engine_makes_unfit_for_its_schema_is_kept_back(engine: EngineServer) -> None:
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}

    @tool(effect="pure", output_schema=schema)
    def find(name: str) -> dict[str, int]:
        """Find a person's number."""
        return {"number": 5550100}

    guardrails = {"input_type": "activity_output", "redacted_input": {"number": "[REDACTED]"}}
    engine.respond = refuse("ActivityCompleted", "find", {"action": "continue", "guardrails": guardrails})
    with AgentKit(tools=[find], settings={"governance_url": engine.url}) as kit:
        kit.model.script(Turn(calls=[Call(name="find", arguments={"name": "Ann"})]), Turn(text="done"))

        played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert (result.outcome, result.code) == ("failed", "output_unfit")
    assert "the governance engine changed it, and the result of find does not fit its output schema" in result.result
    assert "5550100" not in str(played.events)


def test_an_answer_that_the_engine_replaces_by_no_text_is_kept_back(kit: AgentKit, engine: EngineServer) -> None:
    guardrails = {"input_type": "activity_output", "redacted_input": {"text": "[REDACTED]"}}
    engine.respond = refuse("ActivityCompleted", "model", {"action": "continue", "guardrails": guardrails})
    kit.model.script(Turn(text="Her number is 555-0100."))

    played = kit.play()

    assert (played.end.reason, played.end.output) == ("policy_refused", None)


def test_a_call_of_which_the_engine_sees_a_part_is_not_made(kit: AgentKit, engine: EngineServer) -> None:
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "x" * 70_000 + "555"})]), Turn(text="done"))

    played = kit.play()

    (result,) = played.of(ToolResultPayload)
    assert (result.outcome, calls_made) == ("refused", [])
    assert "shown in part" in result.result
    assert [event["is_cut"] for event in engine.of("ActivityStarted", "send")] == [True]
    assert not engine.of("ActivityStarted", "model")[0]["is_cut"]


def test_a_closed_engine_that_sees_a_part_of_the_prompt_ends_the_run(engine: EngineServer) -> None:
    closed = {"governance_url": engine.url, "governance_policy": "fail_closed"}
    with AgentKit(tools=[look], settings=closed) as kit:
        kit.model.script(Turn(text="never said"))

        played = kit.play("x" * 70_000)

    assert (played.end.status, played.end.reason, played.text) == ("failed", "governance_input_cut", "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"verdict": "block", "reason": "Personal data."}, None),
        ({"action": "continue", "guardrails": {"validation_passed": False, "reasons": ["Personal data."]}}, None),
        ({"action": "stop", "reason": "Personal data."}, "policy_refused"),
    ],
)
def test_a_result_is_kept_back(kit: AgentKit, engine: EngineServer, answer: Any, reason: str | None) -> None:
    engine.respond = refuse("ActivityCompleted", "look", answer)
    kit.model.script(Turn(calls=[Call(name="look", arguments={"name": "Ann"})]), Turn(text="done"))

    played = kit.play()

    assert played.end.reason == reason
    if reason is None:
        assert "kept back: Personal data." in played.results("look")[0]
        assert "555-0100" not in str(played.events)


def test_without_the_engine_a_pure_call_that_leaves_is_not_made(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = lambda event: 500
    kit.agent(tools=[replace(as_tool(look), labels=frozenset({"outward"}), mcp=("shop", "look"))])
    kit.model.script(Turn(calls=[Call(name="look", arguments={"name": "Ann"})]), Turn(text="done"))

    played = kit.play()

    assert calls_made == []
    assert [result.outcome for result in played.of(ToolResultPayload)] == ["refused"]
    assert engine.of("ActivityStarted", "look")[0]["activity_identity"] == "mcp:shop/look"


@pytest.mark.parametrize("reply", [500, b"<html>", {"action": "perhaps"}], ids=["500", "no JSON", "no action"])
def test_without_the_engine_pure_calls_are_made_and_others_are_not(
    kit: AgentKit, engine: EngineServer, reply: Any
) -> None:
    engine.respond = lambda event: reply
    kit.model.script(
        Turn(calls=[Call(name="look", arguments={"name": "Ann"}), Call(name="send", arguments={"text": "hi"})]),
        Turn(text="done"),
    )

    played = kit.play()

    assert calls_made == [("look", "Ann")]
    assert {result.name: result.outcome for result in played.of(ToolResultPayload)} == {
        "look": "done",
        "send": "refused",
    }
    notes = [event.message for event in played.of(ErrorPayload) if event.code == "governance_unavailable"]
    assert sum(note.startswith("look:") for note in notes) == 2  # before and after the call
    assert not any(note.startswith("send:") for note in notes)
    assert played.end.status == "succeeded"


def test_without_the_engine_nothing_is_done_if_all_is_closed(engine: EngineServer) -> None:
    engine.respond = lambda event: 500
    closed = {"governance_url": engine.url, "governance_policy": "fail_closed"}
    with AgentKit(tools=[look], settings=closed) as kit:
        kit.model.script(Turn(text="never said"))

        played = kit.play()

    assert (played.end.status, played.end.reason, played.text) == ("failed", "governance_unavailable", "")


def test_an_engine_that_flips_is_believed_at_each_call(kit: AgentKit, engine: EngineServer) -> None:
    def respond(event: dict[str, Any]) -> Any:
        return {"action": "continue"} if len(calls_made) < 2 else {"action": "stop"}

    engine.respond = respond
    kit.model.script(*[Turn(calls=[Call(name="look", arguments={"name": "Ann"})])] * 5, Turn(text="done"))

    played = kit.play()

    assert (len(calls_made), played.end.reason) == (2, "policy_refused")


def test_a_slow_engine_costs_its_time_limit_and_no_more(kit: AgentKit, engine: EngineServer) -> None:
    released = threading.Event()

    def respond(event: dict[str, Any]) -> Any:
        if event.get("activity_type") == "send":
            released.wait(20)
        return {"action": "continue"}

    engine.respond = respond
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))
    began = time.monotonic()

    (result,) = kit.play().of(ToolResultPayload)
    released.set()

    assert (result.outcome, calls_made) == ("refused", [])
    assert time.monotonic() - began < 8


def test_a_stop_during_the_question_ends_the_run_with_valid_steps(kit: AgentKit, engine: EngineServer) -> None:
    question_signal, released = threading.Event(), threading.Event()

    def respond(event: dict[str, Any]) -> Any:
        if event.get("activity_type") == "send":
            question_signal.set()
            released.wait(20)
        return {"action": "continue"}

    engine.respond = respond
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))
    handle = kit.run(detached=False)
    assert question_signal.wait(20)
    handle.cancel()
    end = handle.result(30)
    released.set()

    assert (end.status, calls_made) == ("cancelled", [])
    with kit.runner.journal.database.read() as connection:
        assert connection.execute(select(steps.c.id).where(steps.c.ended_ms.is_(None))).all() == []


def test_an_approval_that_the_engine_requires_is_asked_for_once(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = refuse("ActivityStarted", "send", {"verdict": "require_approval", "reason": "Ask Ann."})
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))

    handle = kit.run()
    (question,) = waiting(handle)
    assert (question["reason"], calls_made) == ("Ask Ann.", [])
    handle.decide(question["approval_id"], Decision(decision="approve"))
    end = handle.result(30)

    assert (end.status, calls_made) == ("succeeded", [("send", "hi")])
    assert len(engine.of("ActivityStarted", "send")) == 2


@pytest.mark.parametrize("answer", [{"verdict": "require_approval", "reason": "Ask Ann."}, {"verdict": "block"}])
def test_a_sticky_approval_is_not_named_for_a_call_that_the_engine_stops(
    engine: EngineServer, answer: dict[str, str]
) -> None:
    with AgentKit(tools=[order], settings={"governance_url": engine.url}) as kit:
        kit.model.script(Turn(calls=[Call(name="order", arguments={"boxes": 1})]), Turn(text="done"))
        first = kit.run(thread_id="talk")
        (question,) = waiting(first)
        first.decide(question["approval_id"], Decision(decision="approve", scope="thread"))
        first.result(30)
        engine.respond = refuse("ActivityStarted", "order", answer)
        kit.model.script(Turn(calls=[Call(name="order", arguments={"boxes": 2})]), Turn(text="done"))

        second = kit.run(thread_id="talk")
        if answer["verdict"] == "require_approval":
            waiting(second)
            second.cancel()
        second.result(30)
        (decided,) = [
            decision for decision in decisions(kit, second.run_id) if decision["verdict"] == answer["verdict"]
        ]

    assert "approved" not in decided
    assert calls_made == [("order", 1)]


def test_a_call_that_a_person_approves_is_shown_as_the_engine_redacted_it(kit: AgentKit, engine: EngineServer) -> None:
    guardrails = {"redacted_input": {"cents": 1}}
    engine.respond = refuse("ActivityStarted", "pay", {"action": "continue", "guardrails": guardrails})
    kit.model.script(Turn(calls=[Call(name="pay", arguments={"cents": 500})]), Turn(text="done"))

    handle = kit.run()
    (question,) = waiting(handle)
    assert question["digest"] == canonical_digest({"cents": 1})
    handle.decide(question["approval_id"], Decision(decision="approve"))
    handle.result(30)

    assert calls_made == [("pay", 1)]


def test_the_engine_does_not_change_what_a_person_approved(kit: AgentKit, engine: EngineServer) -> None:
    kit.model.script(Turn(calls=[Call(name="pay", arguments={"cents": 500})]), Turn(text="done"))
    handle = kit.run()
    (question,) = waiting(handle)
    guardrails = {"redacted_input": {"cents": 1}}
    engine.respond = refuse("ActivityStarted", "pay", {"action": "continue", "guardrails": guardrails})
    handle.decide(question["approval_id"], Decision(decision="approve"))
    handle.result(30)

    (result,) = [event for event in handle.events() if isinstance(event, ToolResultPayload)]
    assert (result.outcome, calls_made) == ("refused", [])


def test_an_approval_of_other_arguments_is_no_answer_to_the_engines_question(
    kit: AgentKit, engine: EngineServer
) -> None:
    engine.respond = refuse("ActivityStarted", "send", {"verdict": "require_approval", "reason": "Ask Ann."})
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))
    handle = kit.run()
    (question,) = waiting(handle)
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(approvals).values(digest="0" * 64))

    handle.decide(question["approval_id"], Decision(decision="approve"))
    questions = (e for e in handle.events() if isinstance(e, ApprovalPayload) and e.decision is None)

    assert [e.reason for e in islice(questions, 2)] == ["Ask Ann."] * 2
    assert calls_made == []
    handle.cancel()


def test_an_engine_that_turns_against_an_approved_call_is_believed(kit: AgentKit, engine: EngineServer) -> None:
    kit.model.script(Turn(calls=[Call(name="pay", arguments={"cents": 500})]), Turn(text="done"))
    handle = kit.run()
    (question,) = waiting(handle)
    engine.respond = refuse("ActivityStarted", "pay", {"verdict": "block"})
    handle.decide(question["approval_id"], Decision(decision="approve"))
    handle.result(30)

    assert calls_made == []


def test_a_run_of_one_call_is_governed_too(kit: AgentKit, engine: EngineServer) -> None:
    done = kit.runner.call_tool("look", {"name": "Ann"}, agent_id="tester")
    done.result(30)
    kit.runner.settle(10)
    assert engine.types() == [
        "WorkflowStarted",
        "ActivityStarted look",
        "ActivityCompleted look",
        "WorkflowCompleted",
    ]

    engine.respond = refuse("ActivityStarted", "send", {"verdict": "block"})
    end = kit.runner.call_tool("send", {"text": "hi"}, agent_id="tester").result(30)

    assert (end.status, end.reason, calls_made) == ("failed", "call_blocked", [("look", "Ann")])


def test_a_run_of_one_call_waits_where_the_engine_requires_it(kit: AgentKit, engine: EngineServer) -> None:
    engine.respond = refuse("ActivityStarted", "send", {"verdict": "require_approval"})

    handle = kit.runner.call_tool("send", {"text": "hi"}, agent_id="tester")
    (question,) = waiting(handle)
    assert calls_made == []
    handle.decide(question["approval_id"], Decision(decision="approve"))

    assert (handle.result(30).status, calls_made) == ("succeeded", [("send", "hi")])


class Own:
    """A local policy with one verdict for calls of tools."""

    version, offers_sticky = "own", False

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def decide(self, facts: CallFacts) -> PolicyDecision:
        verdict = self._verdict if facts.point == "tool" else Verdict.ALLOW
        return PolicyDecision(verdict=verdict, rule="own", version=self.version)


@pytest.mark.parametrize(("verdict", "question_count"), [(Verdict.BLOCK, 0), (Verdict.HALT, 0), (Verdict.ALLOW, 1)])
def test_a_local_refusal_is_not_sent_to_the_engine(
    kit: AgentKit, engine: EngineServer, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, question_count: int
) -> None:
    monkeypatch.setattr(PolicySource, "current", lambda _self: Own(verdict))
    kit.model.script(Turn(calls=[Call(name="send", arguments={"text": "hi"})]), Turn(text="done"))
    kit.play()

    assert (len(engine.of("ActivityStarted", "send")), len(calls_made)) == (question_count, question_count)


def waiting(handle: RunHandle) -> list[dict[str, Any]]:
    """Return the open questions of a run, as soon as it waits."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if approvals := handle.approvals():
            return approvals
        time.sleep(0.01)
    raise AssertionError("the run does not wait")
