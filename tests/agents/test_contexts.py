"""The contexts of a run: what it was started with holds for all its owners, reaches its calls, and may be required."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from agents.catalogue import as_tool
from agents.handle import RunHandle
from agents.process import current_process
from agents.runner import Runner
from agents.testing import AgentKit, Call, Turn
from agents.tools import ToolContext, current_call, tool
from bus.identity.audit.recording import acting_with
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import ErrorPayload, Payload, StatusPayload, ToolResultPayload
from config.database.tables import runs
from config.effects import Classification
from config.identity.contexts import DeclaredContext, GoldenContext, logged_fields, trace_id_of_run, working_for
from config.identity.principal import Principal, Role
from config.logs import line_format
from config.tracing import traced
from handlers.run_agent import run_agent
from observers.base import AgentFacts, AgentObserver, RunFacts
from tests.config.identity.test_contexts import UNREADABLE

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SETTINGS: dict[str, Any] = {
    "app_id": "shop",
    "environment": "production",
    "cost_center": "CC-12",
    "data_classification": Classification.RESTRICTED,
}
ANN = Principal(id="ann", roles=frozenset({Role.OPERATOR}))
seen: list[ToolContext] = []
logged: list[dict[str, str]] = []
started: list[RunHandle] = []
GOLDEN = GoldenContext(
    app_id="shop",
    environment="production",
    initiator_id="ann",
    trace_id=TRACE_ID,
    cost_center="CC-12",
    data_classification=Classification.RESTRICTED,
)


@tool(effect="pure")
def look() -> str:
    """Note the call's contexts."""
    seen.append(current_call())
    logged.append(dict(logged_fields()))
    return "looked"


@tool(effect="pure")
def delegate() -> str:
    """Start another run."""
    started.append(Runner(current_process()).run("Look.", "tester", detached=True))
    return "delegated"


class Noting(AgentObserver):
    """Keeps the facts of the runs that it sees."""

    inline = True
    contexts: list[GoldenContext | None]

    def __init__(self) -> None:
        self.contexts = []

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        self.contexts.append(context.golden)


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    for collection in (seen, logged, started):
        collection.clear()
    with AgentKit(tools=[look, delegate], settings=SETTINGS) as agent_kit:
        yield agent_kit


def call_look(kit: AgentKit, *, name: str = "look", detached: bool = False) -> RunHandle:
    with traced(TRACE_ID):
        return kit.runner.call_tool(name, {}, agent_id="tester", principal=ANN, detached=detached)


def change(kit: AgentKit, handle: RunHandle, **columns: Any) -> None:
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == handle.run_id).values(**columns))


def work_on(handle: RunHandle) -> None:
    """Be the worker that gets the run's wake-up."""
    run_agent(RunAgentMessage(run_id=handle.run_id, agent_id="tester", thread_id=handle.thread_id).to_wire())


def error_of(handle: RunHandle) -> tuple[str, str] | None:
    """Return the code and the sentence of a run's error, once it has ended."""
    errors = [(event.code, event.message) for event in handle.events() if isinstance(event, ErrorPayload)]
    return errors[-1] if errors else None


def with_settings(kit: AgentKit, **changed: Any) -> None:
    """Give the worker of this process other settings."""
    process = current_process()
    process.journal.settings = process.settings.model_copy(update=changed)


def test_a_tool_an_observer_and_the_log_get_the_contexts_of_the_start(kit: AgentKit) -> None:
    observer = Noting()
    kit.model.script(Turn(calls=[Call(name="look", arguments={})]), Turn(text="Done."))
    before = acting_with.set(("key", "key_1"))
    try:
        with traced(TRACE_ID):
            handle = kit.run(principal=ANN, observers=[observer])
    finally:
        acting_with.reset(before)

    assert handle.result(30).status == "succeeded"
    (call,) = seen
    assert (call.golden, set(observer.contexts)) == (GOLDEN, {GOLDEN})
    assert call.security is not None
    assert (call.security.initiator_id, call.security.trace_id) == ("ann", TRACE_ID)
    assert (call.security.token_ref, call.security.roles) == ("key:key_1", frozenset())  # there is no such key
    first = next(event for event in handle.events() if isinstance(event, StatusPayload))
    assert first.context == GOLDEN.as_json()
    of_log = {
        "app_id": "shop",
        "environment": "production",
        "cost_center": "CC-12",
        "data_classification": "RESTRICTED",
    }
    assert logged == [of_log]
    assert dict(logged_fields()) == {}


def test_a_later_owner_has_the_context_of_the_start_and_not_that_of_its_settings(kit: AgentKit) -> None:
    handle = call_look(kit, detached=True)
    with_settings(kit, app_id="other", environment="test", cost_center=None, data_classification=Classification.PUBLIC)
    work_on(handle)

    assert handle.result(30).status == "succeeded"
    assert [call.golden for call in seen] == [GOLDEN]


def test_a_run_that_a_tool_starts_has_the_context_of_its_run(kit: AgentKit) -> None:
    call_look(kit, name="delegate").result(30)

    (child,) = started
    child_run = kit.runner.journal.readers.runs.get(kit.runner.principal, child.run_id)
    assert (child_run["principal"], child_run["context"]) == ("local", GOLDEN.as_json())
    assert child_run["security_context"]["token_ref"] == "process"
    child.cancel()


def test_an_initiator_and_a_reference_are_named_and_give_no_right(kit: AgentKit) -> None:
    declared = replace(kit.settings.declared_context("default"), initiator_id="root", token_ref="vault:till")
    with working_for("default", declared):
        handle = call_look(kit)

    assert handle.result(30).status == "succeeded"
    (call,) = seen
    assert call.golden is not None
    assert call.security is not None
    assert (call.golden.initiator_id, call.security.initiator_id, call.security.token_ref) == (
        "root",
        "root",
        "vault:till",
    )
    assert (call.principal, call.security.roles) == ("ann", ANN.roles)


# --- runs without contexts


def test_a_run_of_an_earlier_release_is_completed_by_the_workers_settings(kit: AgentKit) -> None:
    handle = call_look(kit, detached=True)
    change(kit, handle, context_json=None, trace_id=None, credential=None)
    work_on(handle)

    assert handle.result(30).status == "succeeded"
    (call,) = seen
    assert call.golden == replace(GOLDEN, trace_id=trace_id_of_run(handle.run_id))
    assert call.security is not None
    assert call.security.token_ref == ""


def test_a_required_golden_context_that_is_missing_blocks_calls(kit: AgentKit) -> None:
    kit.model.script(Turn(calls=[Call(name="look", arguments={})]), Turn(text="I may not."))
    turn, call = kit.run(detached=True), call_look(kit, detached=True)
    with_settings(kit, require_contexts=True)
    for handle in (turn, call):
        change(kit, handle, context_json=None)
        work_on(handle)

    assert turn.result(30).status == "succeeded"
    (result,) = [event for event in turn.events() if isinstance(event, ToolResultPayload)]
    assert result.outcome == "refused"
    assert str(result.result).startswith("GoldenContext not set in workflow memo: ")
    assert call.result(30).status == "failed"
    code, sentence = error_of(call) or ("", "")
    assert code == "golden_context_missing"
    assert sentence.startswith("GoldenContext not set in workflow memo: ")
    assert seen == []


@pytest.mark.parametrize("missing", ["credential", "trace_id"])
def test_a_required_security_context_that_is_missing_ends_the_run_before_any_call(kit: AgentKit, missing: str) -> None:
    handle = kit.run(detached=True)
    change(kit, handle, **{missing: None})
    with_settings(kit, require_contexts=True)
    work_on(handle)

    assert handle.result(30).status == "failed"
    code, sentence = error_of(handle) or ("", "")
    assert code == "security_context_missing"
    assert sentence.startswith("SecurityContext not set in workflow memo: ")
    assert kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id).get("steps") is None


@pytest.mark.parametrize("text", UNREADABLE[:1] + UNREADABLE[11:12], ids=["empty", "unknown classification"])
def test_a_context_that_cannot_be_read_blocks_calls_with_every_setting(kit: AgentKit, text: str) -> None:
    handle = call_look(kit, detached=True)
    change(kit, handle, context_json=text)
    work_on(handle)

    assert handle.result(30).status == "failed"
    assert (error_of(handle) or ("", ""))[0] == "golden_context_missing"
    assert seen == []


def test_a_run_with_contexts_is_worked_on_where_they_are_required(kit: AgentKit) -> None:
    with_settings(kit, require_contexts=True)

    assert call_look(kit).result(30).status == "succeeded"
    assert [call.golden for call in seen] == [GOLDEN]


# --- what it decides


def test_the_policy_judges_by_the_context(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "rules: [{name: inside, verdict: block, reason: It stays here., "
        'condition: \'context.data_classification == "RESTRICTED" && context.environment != "test" '
        '&& context.cost_center == "CC-12" && context.initiator_id == principal && context.app_id == "shop"\'}]'
    )
    seen.clear()
    for changed, outcome in (
        ({}, "failed"),
        ({"environment": "test"}, "succeeded"),
        ({"cost_center": None}, "succeeded"),
    ):
        with AgentKit(tools=[look], settings={**SETTINGS, **changed, "policy": str(file)}) as kit:
            handle = kit.runner.call_tool("look", {}, agent_id="tester", principal=ANN)
            assert handle.result(30).status == outcome
            code = (error_of(handle) or (None, ""))[0]
            assert code == ("call_blocked" if outcome == "failed" else None)
    assert len(seen) == 2


def test_a_policy_names_fields_that_contexts_have(tmp_path: Path) -> None:
    from agents.governance.policy.condition import Condition
    from config.expressions.errors import ExpressionRefused

    assert Condition('context.environment == "production"').names >= {"context.environment"}
    for wrong in ("context.region == 'eu'", "context == 1", "context['app_id'] == 'a'", "context.trace_id == ''"):
        with pytest.raises(ExpressionRefused):
            Condition(wrong)


def test_roles_that_are_not_there_refuse_the_call(kit: AgentKit) -> None:
    kit.agent(tools=[replace(as_tool(look), roles=frozenset({Role.ADMIN}))])

    handle = call_look(kit)

    assert handle.result(30).status == "failed"
    assert (error_of(handle) or ("", ""))[0] == "role_missing"
    assert seen == []


# --- what is shown


def test_only_operators_see_the_reference_to_the_credential(kit: AgentKit) -> None:
    before = acting_with.set(("key", "key_1"))
    handle = call_look(kit)
    acting_with.reset(before)
    handle.result(30)
    run_by_role = {
        role: kit.runner.journal.readers.runs.get(Principal(id="bob", roles=frozenset({role})), handle.run_id)
        for role in Role
    }

    assert {str(role) for role, run in run_by_role.items() if "token_ref" in run["security_context"]} == {
        "operator",
        "admin",
    }
    view = run_by_role[Role.OPERATOR]
    assert view["context"] == GOLDEN.as_json()
    assert view["security_context"] == {
        "initiator_id": "ann",
        "roles": ["operator"],
        "trace_id": TRACE_ID,
        "token_ref": "key:key_1",
    }
    listed = kit.runner.journal.readers.runs.newest(kit.runner.principal)[0]
    assert "context" not in listed
    assert kit.runner.journal.readers.runs.spans(ANN, handle.run_id)[0]["context"] == GOLDEN.as_json()


def test_a_run_without_contexts_shows_none(kit: AgentKit) -> None:
    handle = call_look(kit)
    handle.result(30)
    change(kit, handle, context_json=None, credential=None)

    run = kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id)

    assert run.keys().isdisjoint({"context", "security_context"})


def test_log_records_of_a_run_have_its_context_on_one_line(kit: AgentKit) -> None:
    import logging

    record = logging.makeLogRecord({"msg": "called", "name": "bus", "levelname": "INFO"})
    declared = DeclaredContext(app_id="shop", environment="production", cost_center='4 "7"', initiator_id="ann b")
    with working_for("default", declared):
        text, in_json = (
            line_format(kit.settings.model_copy(update={"log_format": form}), "worker").format(record)
            for form in ("text", "json")
        )

    assert text.endswith(r'app_id=shop environment=production cost_center="4 \"7\"" initiator_id="ann b"')
    fields = json.loads(in_json)
    assert (fields["app_id"], fields["cost_center"], fields["initiator_id"]) == ("shop", '4 "7"', "ann b")
    assert "token_ref" not in fields


def test_the_context_costs_one_short_column(kit: AgentKit) -> None:
    handle = call_look(kit)
    handle.result(30)
    with kit.runner.journal.database.read() as connection:
        row = connection.execute(select(runs.c.context_json).where(runs.c.id == handle.run_id)).one()

    assert json.loads(row.context_json) == {
        "app_id": "shop",
        "environment": "production",
        "cost_center": "CC-12",
        "data_classification": "RESTRICTED",
    }
