"""What a call passes before it is made, in order: roles, arguments, the policy, a person's approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from agents.catalogue import as_tool
from agents.context import RunContext
from agents.governance.guardrails.guardrails import Guardrails
from agents.models.streams.tool_calls import ToolCall
from agents.prompt import Window
from agents.steps import stages
from agents.steps.call_record import CallDecision, version_of
from agents.steps.stages import CHANGED, POLICY_CHANGED, CallRequest, decide, request_of
from agents.steps.tool_step import ToolStep
from agents.testing import AgentKit, Call, Turn
from agents.tools import Tool, tool
from bus.journal.approvals import Decision, PersonAnswer
from bus.journal.owner import Commit, OpenStep, Past
from bus.payloads import ToolResultPayload
from config.database.tables import steps
from config.effects import Classification
from config.errors import ModelVisible
from config.identity.principal import Role
from config.ids import canonical_digest
from config.policy_decision import TOOLS_OWN, CallFacts, PolicyDecision, Verdict
from tests.bus.journal_harness import new_run

BOOK = '{"room": "A 12", "seats": 4}'


@tool(effect="keyed")
def book(room: str, seats: int) -> dict[str, Any]:
    """Book a room."""
    return {"room": room, "seats": seats}


BOOKING = as_tool(book)


class Rule:
    """A policy that decides every call alike."""

    offers_sticky = False

    def __init__(self, verdict: Verdict, version: str = "v1", **more: Any) -> None:
        self.version = version
        self.asked: list[CallFacts] = []
        self._decision = PolicyDecision(verdict=verdict, rule="rooms", reason="Ask Ann.", version=version, **more)

    def decide(self, facts: CallFacts) -> PolicyDecision:
        self.asked.append(facts)
        return self._decision


@pytest.fixture
def context(kit: AgentKit) -> RunContext:
    journal = kit.runner.journal
    lease = journal.loop.run(journal.owner.claim(journal.clients.accept(new_run()).run_id))
    assert lease is not None
    return RunContext(journal, lease, (), Window(Past(items=()), 1000))


def decided(
    context: RunContext, booking: Tool = BOOKING, text: str = BOOK, prior: OpenStep | None = None
) -> CallDecision:
    call = ToolCall(id="call_1", name="book", arguments_text=text)
    return decide(request_of(context, call, {"book": booking}, prior))


def approved(arguments: Mapping[str, Any], booking: Tool = BOOKING, policy_version: str | None = None) -> OpenStep:
    person_answer = PersonAnswer(
        approval_id="apr_1",
        decision=Decision(decision="approve"),
        digest=canonical_digest(arguments),
        tool_digest=version_of(booking),
        policy_version=policy_version,
    )
    return OpenStep(
        id="step_1",
        name="book",
        call_id="call_1",
        effect="keyed",
        status="planned",
        key="key_1",
        attempt=1,
        arguments_digest="",
        arguments_text=BOOK,
        answer=person_answer,
    )


def test_an_approval_is_of_a_servers_tool_whatever_the_model_calls_it() -> None:
    of_bank = replace(BOOKING, mcp=("bank", "book"))

    assert version_of(replace(of_bank, name="bank_book")) == version_of(of_bank)
    assert len({version_of(tool) for tool in (BOOKING, of_bank, replace(of_bank, mcp=("evil", "book")))}) == 3


def test_a_principal_without_the_role_is_refused_before_its_arguments_are_read(context: RunContext) -> None:
    context.policy = rule = Rule(Verdict.ALLOW)
    context.lease = replace(context.lease, roles=frozenset({Role.VIEWER}))

    decision = decided(context, replace(BOOKING, roles=frozenset({Role.OPERATOR})), "no JSON")

    assert decision.refusal is not None
    assert decision.refusal[0] == "refused"
    assert "operator" in decision.refusal[1]
    assert rule.asked == []


def test_the_policy_is_asked_about_valid_arguments_only(context: RunContext) -> None:
    context.policy = rule = Rule(Verdict.ALLOW)

    decision = decided(context, text='{"room": "A 12", "seats": "four"}')

    assert decision.refusal is not None
    assert decision.refusal[0] == "failed"
    assert (rule.asked, decision.policy_decision) == ([], None)


def test_the_policy_sees_the_call_and_its_run(context: RunContext) -> None:
    context.policy = rule = Rule(Verdict.ALLOW)
    context.labels.add("untrusted")

    decision = decided(context)

    (facts,) = rule.asked
    assert (facts.name, facts.arguments) == ("book", {"room": "A 12", "seats": 4})
    assert facts.labels == {"untrusted", "outward"}
    assert (facts.principal, facts.roles) == (context.lease.principal, context.lease.roles)
    assert (decision.refusal, decision.approval_reason) == (None, None)


def test_a_blocked_call_is_not_made_and_needs_no_approval(context: RunContext) -> None:
    context.policy = Rule(Verdict.BLOCK)

    decision = decided(context, replace(BOOKING, confirm=True))

    assert decision.refusal is not None
    assert decision.refusal[:2] == ("refused", "Not done: the policy's rule 'rooms' blocks it. Ask Ann.")
    assert decision.approval_reason is None


def test_a_constrained_call_is_made_with_other_arguments(context: RunContext) -> None:
    context.policy = Rule(Verdict.CONSTRAIN, arguments={"room": "B 1", "seats": 2}, timeout_s=0.5)

    step = ToolStep(context, ToolCall(id="call_1", name="book", arguments_text=BOOK), {"book": BOOKING}, 5.0)
    context.loop.run(step.run())

    assert step.outcome("msg_1").ended[0].result == {"room": "B 1", "seats": 2}
    assert step.call_event("msg_1").arguments == {"room": "B 1", "seats": 2}


def test_arguments_that_a_rule_breaks_are_refused(context: RunContext) -> None:
    context.policy = Rule(Verdict.CONSTRAIN, arguments={"room": "B 1"})

    decision = decided(context)

    assert decision.refusal is not None
    assert "'rooms' rewrote the arguments" in decision.refusal[1]


def test_a_policy_requires_an_approval_that_holds_for_its_version(context: RunContext) -> None:
    arguments = {"room": "A 12", "seats": 4}
    context.policy = Rule(Verdict.REQUIRE_APPROVAL)
    policy_version = decided(context).policy_version

    assert policy_version is not None
    assert decided(context).approval_reason == "Ask Ann."
    assert decided(context, prior=approved(arguments, policy_version=policy_version)).approval_reason is None
    assert decided(context, prior=approved(arguments)).approval_reason == POLICY_CHANGED
    assert decided(context, prior=approved({}, policy_version=policy_version)).approval_reason == CHANGED


def test_restricted_data_needs_an_approval(context: RunContext) -> None:
    restricted = replace(BOOKING, classification=Classification.RESTRICTED)

    assert decided(context, restricted).approval_reason == restricted.confirm_reason


def test_the_decision_is_committed_with_the_start(kit: AgentKit, context: RunContext) -> None:
    context.policy = Rule(Verdict.CONSTRAIN, arguments={"room": "B 1", "seats": 2})
    step = ToolStep(context, ToolCall(id="call_1", name="book", arguments_text=BOOK), {"book": BOOKING}, 5.0)

    context.loop.run(context.save(Commit(started=[step.started()])))

    with kit.runner.journal.database.read() as connection:
        recorded = connection.execute(select(steps.c.decision_json).where(steps.c.id == step.id)).scalar_one()
    assert orjson.loads(recorded)["rule"] == "rooms"
    assert orjson.loads(recorded)["arguments"] == {"room": "B 1", "seats": 2}


def test_a_call_that_was_begun_keeps_the_arguments_of_its_start(context: RunContext) -> None:
    context.policy = rule = Rule(Verdict.BLOCK)
    begun = replace(approved({}), status="started", answer=PersonAnswer(), constrained={"room": "B 1", "seats": 2})

    decision = decided(context, prior=begun)

    assert (decision.arguments, decision.refusal, rule.asked) == ({"room": "B 1", "seats": 2}, None, [])


class Kept(Guardrails):
    """Guardrails that keep one word back."""

    def output(self, tool: str, result: Any) -> Any:
        return {name: "[redacted]" if value == "A 12" else value for name, value in result.items()}


def test_a_result_is_validated_and_then_redacted(context: RunContext, make_call: Callable[[Tool], Any]) -> None:
    context.guardrails = Kept()
    schema = {"type": "object", "properties": {"room": {"const": "A 12"}}, "required": ["room", "seats"]}

    assert make_call(replace(BOOKING, output_schema=schema)).result == {"room": "[redacted]", "seats": 4}


def test_a_result_that_does_not_fit_is_kept_back(make_call: Callable[[Tool], Any]) -> None:
    ended = make_call(replace(BOOKING, output_schema={"type": "object", "required": ["number"]}))

    assert ended.status == "failed"
    assert ended.result.startswith("The call was made, and its result is kept back: the result of book does not fit")


@pytest.fixture
def make_call(context: RunContext) -> Callable[[Tool], Any]:
    def make(booking: Tool) -> Any:
        step = ToolStep(context, ToolCall(id="call_1", name="book", arguments_text=BOOK), {"book": booking}, 5.0)
        context.loop.run(step.run())
        return step.outcome("msg_1").ended[0]

    return make


@pytest.mark.parametrize("own", [{"confirm": True}, {"approvers": 2}, {"classification": Classification.RESTRICTED}])
def test_the_approval_that_a_tool_requires_is_in_the_decision(context: RunContext, own: dict[str, Any]) -> None:
    context.policy = Rule(Verdict.ALLOW)

    decision = decided(context, replace(BOOKING, **own))

    assert decision.policy_decision is not None
    assert (decision.policy_decision.verdict, decision.policy_decision.rule) == (Verdict.REQUIRE_APPROVAL, TOOLS_OWN)
    assert decision.policy_decision.reason == decision.approval_reason
    assert decision.policy_version is None  # another policy does not ask again


def test_a_rule_that_changes_such_a_call_stays_named(context: RunContext) -> None:
    context.policy = Rule(Verdict.CONSTRAIN, arguments={"room": "A 12", "seats": 2})

    decision = decided(context, replace(BOOKING, confirm=True))

    assert decision.policy_decision is not None
    assert (decision.policy_decision.verdict, decision.policy_decision.rule) == (Verdict.REQUIRE_APPROVAL, "rooms")
    assert (decision.changed, decision.policy_version) == (("seats",), None)


class BudgetSpent(ModelVisible):
    """The run has made as many calls as it may."""

    code = "budget_spent"


def budget(request: CallRequest, decision: CallDecision) -> CallDecision:
    """A stage as an extension writes one: a run may call tools once."""
    if request.context.spending.total.steps > 2:  # the model's step, and the first call's
        return decision.refused(BudgetSpent("Not done: the run has made its one call."))
    return decision


def test_another_stage_is_one_function_and_one_row(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "STAGES", (*stages.STAGES, budget))
    kit.agent(tools=[book])
    call = Call(name="book", arguments=orjson.loads(BOOK))
    kit.model.script(Turn(calls=[call]), Turn(calls=[call]), Turn(text="One room."))

    played = kit.play("Book twice.")

    results = [event for event in played.events if isinstance(event, ToolResultPayload)]
    assert [(event.outcome, event.code) for event in results] == [("done", None), ("refused", "budget_spent")]
    assert results[1].result == "Not done: the run has made its one call."


def test_another_stage_may_wait_for_another_machine(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(request: CallRequest, decision: CallDecision) -> CallDecision:
        await asyncio.sleep(0)
        return decision.refused(BudgetSpent(f"Not done: {request.record.call.name} is over its budget."))

    monkeypatch.setattr(stages, "REMOTE_STAGES", (*stages.REMOTE_STAGES, ask))
    step = ToolStep(context, ToolCall(id="call_1", name="book", arguments_text=BOOK), {"book": BOOKING}, 5.0)

    context.loop.run(step.ask_engine())

    assert step.outcome("msg_1").ended[0].result == "Not done: book is over its budget."
    assert not step.will_run
