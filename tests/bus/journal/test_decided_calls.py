"""Recorded calls with the facts that a policy looked at."""

from __future__ import annotations

from typing import Any

import pytest

from bus.journal.errors import RunUnknown
from bus.journal.log.commit import Commit
from bus.journal.queries.runs import Runs
from bus.journal.records.steps import StepEnded, StepStarted
from bus.journal.records.threads import HistoryItem
from config.effects import Effect
from config.identity.principal import Principal
from config.policy_decision import PolicyDecision, Verdict
from tests.bus.journal_harness import JournalHarness

ME = Principal()


def decided(**more: Any) -> PolicyDecision:
    return PolicyDecision(verdict=Verdict.ALLOW, rule="default", version="v1", **more)


def step(step_id: str, kind: str, name: str, decision: PolicyDecision | None = None, **more: Any) -> StepStarted:
    defaults: dict[str, Any] = {"arguments_digest": "d", "idempotency_key": f"key_{step_id}"}
    return StepStarted(id=step_id, kind=kind, name=name, decision=decision or decided(), **(defaults | more))


def recorded(harness: JournalHarness) -> str:
    """Return a run with a call of a model, and two of tools that the model asked for at once."""
    owner = harness.own()
    calls = [
        {"call_id": "call_1", "name": "fetch", "arguments": {"limit": 10}, "arguments_text": '{"limit": 99}'},
        {"call_id": "call_2", "name": "mail", "arguments": {}, "arguments_text": "{}"},
    ]
    answer = HistoryItem(id="msg_1", role="assistant", data={"content": "", "tool_calls": calls})
    harness.do(owner.writer.commit(Commit(started=[step("stp_1", "model", "demo/assistant")])))
    harness.do(
        owner.writer.commit(
            Commit(
                ended=[
                    StepEnded(id="stp_1", status="done", usage={"input_tokens": 7, "output_tokens": 3}, cost_usd=0.5)
                ],
                started=[
                    step("stp_2", "tool", "fetch", decided(seen=("untrusted",)), call_id="call_1", effect="pure"),
                    step("stp_3", "tool", "mail", call_id="call_2", effect="unsafe"),
                ],
                history=[answer],
            )
        )
    )
    return owner.lease.run_id


def test_calls_have_the_arguments_of_the_model_and_what_was_spent_before(harness: JournalHarness) -> None:
    run_id = recorded(harness)

    model, fetch, mail = Runs(harness.database).decided_calls(ME, run_id)

    assert (model.facts.point, model.facts.cost_usd, model.facts.steps) == ("model", 0.0, 0)
    assert (fetch.facts.arguments, fetch.facts.effect) == ({"limit": 99}, Effect.PURE)
    assert fetch.facts.labels == {"untrusted"}
    assert (fetch.facts.cost_usd, fetch.facts.tokens, fetch.facts.steps) == (0.5, 10, 1)
    assert (mail.facts.name, mail.facts.effect, mail.facts.steps) == ("mail", Effect.UNSAFE, 1)


def test_decisions_come_in_pages(harness: JournalHarness) -> None:
    run_id, reader = recorded(harness), Runs(harness.database)

    first = reader.decisions(ME, run_id, limit=2)
    rest = reader.decisions(ME, run_id, after=first[-1]["number"])

    assert [(decision["number"], decision["name"], decision["verdict"]) for decision in (*first, *rest)] == [
        (1, "demo/assistant", "allow"),
        (2, "fetch", "allow"),
        (3, "mail", "allow"),
    ]


def test_a_foreign_run_is_unknown(harness: JournalHarness) -> None:
    run_id, foreign = recorded(harness), Principal(tenant="other", id="eve")

    for ask in (Runs(harness.database).decisions, Runs(harness.database).decided_calls):
        with pytest.raises(RunUnknown):
            ask(foreign, run_id)
