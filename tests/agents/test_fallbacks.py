"""Another model answers where the first one cannot, as an event, in the same step; the record names who answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import bus.journal.log.writer
from agents.handle import RunHandle
from agents.models.errors import MODEL_REFUSED
from agents.models.fallbacks import Models
from agents.testing import AgentKit, ScriptedModel
from agents.testing import Call as ScriptedCall
from agents.testing import Turn as ScriptedTurn
from bus.journal.approvals import Decision
from bus.journal.errors import StaleOwner
from bus.journal.readers import steps_of
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import (
    ApprovalPayload,
    EndPayload,
    ErrorPayload,
    MessagePayload,
    Payload,
    ResponsePayload,
    ToolResultPayload,
    WithdrawnPayload,
)
from config.database.tables import runs
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import definition_of, load_definition
from config.identity.principal import LOCAL
from handlers.run_agent import run_agent
from tests.agents.sample_tools import add
from tests.app_harness import AppHarness
from tests.bus.journal_harness import lose_owner
from tests.model_server import Call, ModelServer, Turn

SOON = {"retry-after": "0.001"}
BUSY = Turn(status=503, error={"message": "busy"}, headers=SOON)
OTHER = Turn(text="The other one answers.")


@pytest.fixture
def server(model: ModelServer) -> ModelServer:
    """The server of both models."""
    model.script([OTHER] * 3, "second")
    return model


@pytest.fixture
def agent(harness: AppHarness, server: ModelServer) -> Callable[..., str]:
    """Writes an agent whose second model is at the same server."""

    def write(*more: str) -> str:
        fallbacks = f"fallbacks:\n  - {{model: openai/second, api_base: '{server.url}'}}"
        return harness.agent("\n".join([fallbacks, *more]))

    agent_id = write()
    assert agent_id == "tester"
    return write


def of(kind: type[Any], events: list[Payload]) -> list[Any]:
    return [event for event in events if type(event) is kind]


def switches(events: list[Payload]) -> list[tuple[str, str | None, str | None]]:
    return [(error.code, error.from_model, error.to_model) for error in of(ErrorPayload, events)]


def record(harness: AppHarness, run: RunHandle) -> dict[str, Any]:
    return harness.runner.journal.readers.runs.get(LOCAL, run.run_id)


def models_in_steps(harness: AppHarness, run: RunHandle) -> list[str]:
    with harness.runner.journal.database.read() as connection:
        return [step["name"] for step in steps_of(connection, run.run_id)]


def asked(server: ModelServer) -> list[str]:
    return [request.body["model"] for request in server.requests]


@pytest.mark.usefixtures("agent")
def test_an_overloaded_model_is_retried_and_then_replaced_and_what_it_streamed_is_withdrawn(
    harness: AppHarness, server: ModelServer
) -> None:
    overloaded = {"message": "overloaded", "code": 529}
    cut = Turn(text="Half of it", error_after=3, error=overloaded)
    server.script([BUSY, BUSY, cut], "gpt-5-mini")

    run = harness.run()
    events = list(run.events())

    assert asked(server) == ["gpt-5-mini"] * 3 + ["second"]
    assert switches(events) == [("model_failed", None, None)] * 2 + [
        ("model_failed", "openai/gpt-5-mini", "openai/second")
    ]
    gone = [
        number for event in of(WithdrawnPayload, events) for first, last in event.ranges for number in (first, last)
    ]
    assert [e.content for e in of(ResponsePayload, events) if not gone[0] <= e.seq <= gone[1]] == [
        "The ",
        "other ",
        "one ",
        "answers.",
    ]
    (message,), (end,) = of(MessagePayload, events), of(EndPayload, events)
    assert (message.content, message.partial, end.status) == ("The other one answers.", None, "succeeded")
    assert end.usage["output_tokens"] > 4, "the failed attempt had streamed, and counts"


@pytest.mark.usefixtures("agent")
def test_the_record_says_which_models_answered_and_the_run_stays_with_the_last(
    harness: AppHarness, server: ModelServer
) -> None:
    harness_agent = harness.agent(
        f"tools: [calculator]\nfallbacks: [{{model: openai/second, api_base: '{server.url}'}}]"
    )
    calculate = Turn(calls=[Call(name="calculator", arguments={"expression": "6*7"})])
    server.forget()
    server.script([calculate, Turn(status=401, error={"message": "no"}), Turn(text="back")], "gpt-5-mini")
    server.script([calculate, Turn(status=404, error={"message": "gone"}), OTHER], "second")

    run = harness.run(agent_id=harness_agent)
    end = run.result(20)

    assert asked(server) == ["gpt-5-mini", "gpt-5-mini", "second", "second", "gpt-5-mini"]
    assert end.status == "succeeded"
    assert models_in_steps(harness, run) == [
        "openai/gpt-5-mini",
        "calculator",
        "openai/second",
        "calculator",
        "openai/gpt-5-mini",
    ]
    facts = record(harness, run)
    assert (facts["model"], facts["answered_by"]) == ("openai/gpt-5-mini", ["openai/gpt-5-mini", "openai/second"])


@pytest.mark.usefixtures("agent")
def test_a_run_that_its_first_model_answers_says_nothing_more(harness: AppHarness, server: ModelServer) -> None:
    run = harness.run()

    assert run.result(20).status == "succeeded"
    assert asked(server) == ["gpt-5-mini"]
    assert "answered_by" not in record(harness, run)


TOO_LONG = {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}
USED_UP = {"message": "no credit", "type": "insufficient_quota"}
CANNOT_SERVE = {
    "the key is refused": Turn(status=401, error={"message": "wrong key"}),
    "the model is unknown": Turn(status=404, error={"message": "no such model"}),
    "the account is used up": Turn(status=429, error=USED_UP),
    "the prompt is too long": Turn(status=400, error=TOO_LONG),
    "the prompt is too long, in the stream": Turn(text="It", error_after=2, error=TOO_LONG),
    "the wait is long": Turn(status=429, error={"message": "later"}, headers={"retry-after": "30"}),
}
NOT_TO_BE_GOT_ROUND = {
    "the request is refused": Turn(status=400, error={"message": "no such parameter"}),
    "a filter keeps the answer back": Turn(text=[""], finish_reason="content_filter"),
}


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("why", CANNOT_SERVE)
def test_a_model_that_cannot_serve_is_replaced_at_once(harness: AppHarness, server: ModelServer, why: str) -> None:
    server.script([CANNOT_SERVE[why]], "gpt-5-mini")

    assert harness.run().result(20).output == "The other one answers."
    assert asked(server) == ["gpt-5-mini", "second"]


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("why", NOT_TO_BE_GOT_ROUND)
def test_no_other_model_gets_what_one_refuses(harness: AppHarness, server: ModelServer, why: str) -> None:
    server.script([NOT_TO_BE_GOT_ROUND[why]], "gpt-5-mini")

    assert (end := harness.run().result(20)).status == "failed"
    assert end.reason == "model_refused"
    assert asked(server) == ["gpt-5-mini"]


@pytest.mark.usefixtures("agent")
def test_where_every_model_fails_the_last_error_ends_the_run(harness: AppHarness, server: ModelServer) -> None:
    server.forget()
    server.respond = lambda body: Turn(status=503, error={"message": f"{body['model']} is busy"}, headers=SOON)

    run = harness.run()
    events = list(run.events())

    assert asked(server) == ["gpt-5-mini"] * 3 + ["second"] * 3
    assert "second is busy" in of(ErrorPayload, events)[-1].message
    assert of(EndPayload, events)[0].status == "failed"


def test_a_missing_key_of_the_first_model_lets_the_next_answer(
    harness: AppHarness, server: ModelServer, agent: Callable[..., str]
) -> None:
    agent("api_key_env: CALLBOARD_TEST_NO_SUCH_KEY")

    run = harness.run()
    events = list(run.events())

    assert switches(events) == [("model_key_missing", "openai/gpt-5-mini", "openai/second")]
    assert asked(server) == ["second"]
    assert record(harness, run)["answered_by"] == ["openai/second"]


POLICY = """
rules:
  - name: not-the-second
    point: model
    when: {{models: ["{second}"]}}
    verdict: block
    reason: It is too chatty.
  - name: not-by-the-third
    when: {{tools: [add], models: ["{third}"]}}
    verdict: block
    reason: It cannot add.
"""
REFUSED = ScriptedTurn(error=MODEL_REFUSED("no.", cannot_serve=True))


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[tuple[AgentKit, ScriptedModel, ScriptedModel, Path]]:
    """A kit whose agent has two more models, and a policy in the file."""
    file = tmp_path / "policy.yaml"
    file.write_text("rules: []")
    second, third = ScriptedModel(), ScriptedModel()
    with AgentKit(tools=[add], settings={"policy": str(file)}, fallbacks=[second.name, third.name]) as kit:
        yield kit, second, third, file


def test_a_model_that_the_policy_forbids_is_not_asked_and_tools_are_judged_by_the_model_that_calls_them(
    scripted: tuple[AgentKit, ScriptedModel, ScriptedModel, Path],
) -> None:
    kit, second, third, file = scripted
    file.write_text(POLICY.format(second=second.name, third=third.name))
    kit.model.script(REFUSED)
    third.script(ScriptedTurn(calls=[ScriptedCall(name="add", arguments={"a": 1, "b": 2})]), ScriptedTurn(text="No."))

    events = list(kit.run().events())

    assert second.requests == []
    refusal, switch = of(ErrorPayload, events)
    assert (refusal.code, second.name in refusal.message) == ("policy_refused", True)
    assert (switch.from_model, switch.to_model) == (kit.model.name, third.name)
    assert [result.outcome for result in of(ToolResultPayload, events)] == ["refused"]
    assert of(EndPayload, events)[0].output == "No."


def test_an_approved_call_is_judged_by_the_model_that_asked_for_it(
    scripted: tuple[AgentKit, ScriptedModel, ScriptedModel, Path],
) -> None:
    """The run is resumed for the answer; its agent's own model may not call the tool, and the fallback may."""
    kit, second, third, file = scripted
    file.write_text(POLICY.format(second="no/model", third=kit.model.name))
    kit.agent(tools=[add], fallbacks=[second.name, third.name], tool_overrides={"add": {"confirm": True}})
    kit.model.script(REFUSED)
    second.script(ScriptedTurn(calls=[ScriptedCall(name="add", arguments={"a": 1, "b": 2})]), ScriptedTurn(text="3."))
    run = kit.run()
    next(event for event in run.events() if isinstance(event, ApprovalPayload))

    [question] = run.approvals()
    run.decide(question["approval_id"], Decision(decision="approve"))

    assert run.result(20).output == "3."
    assert [result.outcome for result in of(ToolResultPayload, list(run.events()))] == ["done"]


def test_a_run_that_is_resumed_continues_with_the_model_that_it_had_switched_to(
    scripted: tuple[AgentKit, ScriptedModel, ScriptedModel, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, second, third, _ = scripted
    database = kit.runner.journal.database
    kit.model.script(REFUSED)
    second.script(ScriptedTurn(text="It is answered."))
    passed: list[str] = []

    def lose_behind_the_switch(stage: str) -> None:
        passed.append(stage)
        if len(passed) == 2:
            raise StaleOwner("this run", 0)

    run = kit.run(detached=True)
    with database.read() as connection:
        message = RunAgentMessage.of_run(connection.execute(select(runs).where(runs.c.id == run.run_id)).one())

    with monkeypatch.context() as patch:
        patch.setattr(bus.journal.log.writer, "failpoint", lose_behind_the_switch)
        run_agent(message.to_wire())
    lose_owner(database, run.run_id)
    run_agent(message.to_wire())

    assert run.result(20).output == "It is answered."
    assert [len(model.requests) for model in (kit.model, second, third)] == [1, 1, 0]


def test_every_model_is_asked_once_in_a_step_from_the_one_that_answered_last() -> None:
    definition = definition_of("a", {**FIELDS, "model": "auto", "fallbacks": ["openai/b", "openai/c", "openai/a"]})

    fresh, resumed = Models(definition, "openai/a"), Models(definition, "openai/a", "openai/b")

    assert [model.model for model in (fresh.current, *fresh.others)] == ["openai/a", "openai/b", "openai/c"]
    assert [model.model for model in (resumed.current, *resumed.others)] == ["openai/b", "openai/c", "openai/a"]


FIELDS = {"name": "A", "model": "openai/a", "system_prompt": "x"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("fallbacks: []", "fallbacks: names no model; list one"),
        ("fallbacks: [openai/a]", "number 1, 'openai/a', is the agent's own model; leave it out"),
        ("fallbacks: [openai/b, openai/b]", "number 2, 'openai/b', is listed twice"),
        ("fallbacks: [auto]", "number 1 is `auto`"),
        ("fallbacks: [3]", r"fallbacks\[0\]: has to be the name of a model, or a mapping"),
        ("fallbacks: [{model: openai/b, api_bas: x}]", r"fallbacks\[0\].api_bas: .* Did you mean 'api_base'"),
        ("params: {fallbacks: [openai/b]}", "list the other models as the agent's `fallbacks:`"),
    ],
)
def test_a_mistake_in_the_fallbacks_is_refused_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"name: A\nmodel: openai/a\nsystem_prompt: x\n{line}\n")

    with pytest.raises(DefinitionInvalid, match=rf"a.yaml:4: .*{problem}"):
        load_definition(path)


def test_the_same_model_at_another_address_is_another_one() -> None:
    there = {"model": "openai/a", "api_base": "http://127.0.0.1:9000/v1", "api_key_env": "OTHER_KEY"}

    (fallback,) = definition_of("a", {**FIELDS, "fallbacks": [there]}).fallbacks

    assert dict(fallback) == there


def test_after_a_hand_over_the_other_agents_own_model_is_asked_first(
    agent: Callable[..., str], harness: AppHarness, server: ModelServer
) -> None:
    agent("tools: [ChangeGoal]")
    harness.agent(f"fallbacks:\n  - {{model: openai/gpt-5-mini, api_base: '{server.url}'}}", "billing")
    file = Path(str(harness.settings.agents_dir)) / "billing.yaml"
    file.write_text(file.read_text().replace("model: openai/gpt-5-mini\n", "model: openai/second\n", 1))
    server.script([Turn(calls=[Call(name="ChangeGoal", arguments={"goal": "billing"})])], "gpt-5-mini")

    run = harness.run("My bill is wrong.")

    assert run.result(10).output == "The other one answers."
    assert models_in_steps(harness, run) == ["openai/gpt-5-mini", "ChangeGoal", "openai/second"]
