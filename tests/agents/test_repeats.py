"""A rerun from a step and a retry: recorded steps cost nothing, and no recorded effect is repeated silently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from agents.handle import RunHandle
from agents.models.errors import MODEL_REFUSED
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.clients import IdempotencyKey, Origin
from bus.journal.errors import RunUnknown, ThreadUnknown
from bus.journal.forks.errors import RUN_NOT_REPEATABLE, STEP_UNKNOWN
from bus.loop import process_loop
from bus.payloads import ControlPayload, ResponsePayload, ToolPayload, ToolResultPayload
from config.database.tables import approvals, events, runs, steps, threads
from config.identity.principal import Principal
from tests.bus.journal_harness import JournalHarness
from tests.raising import raises

PAID: list[int] = []
"""What `pay` has done."""


def pay(cents: int) -> str:
    """Pay."""
    PAID.append(cents)
    return f"paid {cents}"


@tool(effect="pure")
def rate(of: str) -> str:
    """Look a rate up."""
    PAID.append(0)
    return f"rate {len(PAID)}"


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    PAID.clear()
    with AgentKit(tools=[pay, rate]) as agent_kit:
        yield agent_kit


def rerun(kit: AgentKit, run_id: str, step: int, *, mode: Any = "recorded", **options: Any) -> RunHandle:
    origin = Origin(run_id=run_id, kind="rerun", from_step=step, mode=mode)
    return kit.runner.repeat(origin, **{"principal": kit.runner.principal, **options})


def retry(kit: AgentKit, run_id: str, **options: Any) -> RunHandle:
    return kit.runner.repeat(Origin(run_id=run_id, kind="retry"), kit.runner.principal, **options)


def paying(cents: int) -> Turn:
    return Turn(calls=[Call(name="pay", arguments={"cents": cents})])


def first(kit: AgentKit, *turns: Turn, **options: Any) -> str:
    """Return the id of a run with these answers that has ended."""
    kit.model.script(*turns)
    handle = kit.run("Pay what is due.", **options)
    kit.played(handle)
    return handle.run_id


def rows(kit: AgentKit, run_id: str) -> list[Any]:
    query = select(steps).where(steps.c.run_id == run_id).order_by(steps.c.number)
    with kit.runner.journal.database.read() as connection:
        return list(connection.execute(query))


def outcomes(kit: AgentKit, handle: RunHandle) -> list[tuple[str, Any, str | None]]:
    results = kit.played(handle).of(ToolResultPayload)
    return [(result.outcome, result.result, result.recorded_in) for result in results]


def test_a_rerun_copies_the_steps_before_and_continues_behind_them(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."), thread_id="talk")
    kit.model.script(Turn(text="Done, again."))

    handle = rerun(kit, run_id, 3)
    played = kit.played(handle)

    assert (played.output, PAID) == ("Done, again.", [5])
    assert outcomes(kit, handle) == [("done", "paid 5", run_id)]
    assert handle.thread_id != "talk"
    assert [row.cost_usd for row in rows(kit, handle.run_id)[:2]] == [0.0, 0.0]
    question, answer = kit.model.requests[-1].messages[-2:]
    assert (question["tool_calls"][0]["function"]["name"], answer["content"]) == ("pay", "paid 5")
    summary = kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id)
    assert {name: summary[name] for name in ("rerun_of", "from_step", "mode")} == {
        "rerun_of": run_id,
        "from_step": 3,
        "mode": "recorded",
    }


@pytest.mark.parametrize("step", [1, 2])
def test_a_later_call_that_was_recorded_gets_its_outcome(kit: AgentKit, step: int) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    kit.model.script(*([paying(5)] if step == 1 else []), paying(5), paying(7), Turn(text="Done."))

    handle = rerun(kit, run_id, step)

    recorded = ("done", "paid 5", run_id)
    assert outcomes(kit, handle) == [recorded, recorded, ("done", "paid 7", None)]
    assert PAID == [5, 7]


def test_a_pure_call_is_made_again_once_its_records_are_used_up(kit: AgentKit) -> None:
    asking = Turn(calls=[Call(name="rate", arguments={"of": "EUR"})])
    run_id = first(kit, asking, Turn(text="Done."))
    kit.model.script(asking, asking, Turn(text="Done."))

    handle = rerun(kit, run_id, 1)

    assert outcomes(kit, handle) == [("done", "rate 1", run_id), ("done", "rate 2", None)]


def test_a_rerun_of_a_rerun_knows_what_the_first_run_has_done(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    kit.model.script(Turn(text="Nothing to do."))
    second = rerun(kit, run_id, 1)
    kit.played(second)
    kit.model.script(paying(5), Turn(text="Done."))

    third = rerun(kit, second.run_id, 1)

    assert outcomes(kit, third) == [("done", "paid 5", run_id)]
    assert PAID == [5]


def test_live_makes_the_call_and_asks_whom_it_has_to(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    kit.agent(tools=[pay], tool_overrides={"pay": {"confirm": True}})
    kit.model.script(Turn(text="Done."))

    handle = rerun(kit, run_id, 2, mode="live")
    question = next(event for event in handle.events() if event.event_type == "approval")
    handle.decide(question.approval_id, Decision(decision="approve"))  # type: ignore[attr-defined]

    assert outcomes(kit, handle) == [("done", "paid 5", None)]
    assert PAID == [5, 5]


def test_a_recorded_call_needs_no_approval_and_a_new_one_does(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    kit.agent(tools=[pay], tool_overrides={"pay": {"confirm": True}})
    kit.model.script(paying(5), Turn(text="Done."))

    kit.played(rerun(kit, run_id, 1))

    with kit.runner.journal.database.read() as connection:
        assert connection.execute(select(approvals)).all() == []


def test_a_retry_continues_behind_what_is_recorded(kit: AgentKit) -> None:
    run_id = first(
        kit, paying(5), Turn(error=MODEL_REFUSED("no")), thread_id="talk", metadata={"order": 17}, priority="high"
    )
    kit.model.script(Turn(text="Done."))

    handle = retry(kit, run_id)

    assert kit.played(handle).output == "Done."
    assert (handle.thread_id, PAID) == ("talk", [5])
    summary = kit.runner.journal.readers.runs.get(kit.runner.principal, handle.run_id)
    assert (summary["retry_of"], summary["metadata"], summary["steps"]) == (run_id, {"order": 17}, 3)
    assert summary["priority"] == "high"
    calls = [call["id"] for message in kit.model.requests[-1].messages for call in message.get("tool_calls", ())]
    assert len(set(calls)) == 2  # providers refuse two calls with one id


def test_a_retry_asks_about_a_call_whose_outcome_is_unknown(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    with kit.runner.journal.database.write() as connection:
        lost = {"status": "unknown", "result_json": '"It is not known."'}
        connection.execute(update(steps).where(steps.c.kind == "tool").values(**lost))
        connection.execute(update(runs).values(status="dead"))
    kit.model.script(Turn(text="Done."))

    handle = retry(kit, run_id)
    question = next(event for event in handle.events() if event.event_type == "approval")
    assert PAID == [5]
    handle.decide(question.approval_id, Decision(decision="take_as_done", result="paid by hand"))  # type: ignore[attr-defined]

    assert outcomes(kit, handle)[-1][:2] == ("done", "paid by hand")
    assert PAID == [5]


def test_the_record_that_was_removed_meanwhile_lets_no_effect_be_repeated(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    kit.model.script(Turn(text="Nothing."))
    second = rerun(kit, run_id, 1)
    kit.played(second)
    kit.runner.journal.readers.runs.remove(kit.runner.principal, [run_id])
    kit.model.script(paying(5), Turn(calls=[Call(name="rate", arguments={"of": "EUR"})]), Turn(text="Done."))

    results = outcomes(kit, rerun(kit, second.run_id, 1))

    assert [outcome for outcome, _, _ in results] == ["refused", "done"]
    assert "the recording that this run continues from was removed" in results[0][1]
    assert PAID == [5, 0]


def test_a_recorded_result_passes_the_guardrails_of_today(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    with kit.runner.journal.database.write() as connection:
        leaked = '"the key is sk-ant-api03-' + "a" * 40 + '"'
        connection.execute(update(steps).where(steps.c.kind == "tool").values(result_json=leaked))
    kit.model.script(paying(5), Turn(text="Done."))

    handle = rerun(kit, run_id, 1)

    assert "aaaa" not in str(outcomes(kit, handle))


def test_labels_of_the_whole_thread_are_those_of_a_rerun(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    with kit.runner.journal.database.write() as connection:
        connection.execute(update(threads).values(labels_json='["untrusted"]'))
    kit.model.script(Turn(text="Done."))

    handle = rerun(kit, run_id, 1)
    kit.played(handle)

    with kit.runner.journal.database.read() as connection:
        labels = connection.execute(select(threads.c.labels_json).where(threads.c.id == handle.thread_id)).scalar()
    assert labels == '["untrusted"]'


def test_a_copied_part_without_its_log_is_still_continued(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    with kit.runner.journal.database.write() as connection:
        connection.execute(delete(events).where(events.c.run_id == run_id, events.c.type != "end"))
    kit.model.script(Turn(text="Done."))

    played = kit.played(rerun(kit, run_id, 3))

    assert (played.output, played.of(ToolPayload), PAID) == ("Done.", [], [5])


def test_a_retry_is_repeated_by_its_key(kit: AgentKit) -> None:
    run_id = first(kit, Turn(error=MODEL_REFUSED("no")))
    kit.model.script(Turn(text="Done."))
    key = IdempotencyKey(key="k", method="POST", path="/v1/runs/x/retry", body_digest="d")

    handle, again = retry(kit, run_id, idempotency=key), retry(kit, run_id, idempotency=key)

    assert (handle.run_id, again.is_new) == (again.run_id, False)


def test_a_rerun_and_a_retry_keep_the_texts_that_the_run_was_given(kit: AgentKit) -> None:
    kit.model.script(Turn(text=["one ", "two"], stall_after=1), Turn(error=MODEL_REFUSED(model="m", reason="no")))
    run = kit.run("Count.")
    for event in run.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            kit.runner.steer(run.run_id, "In French.")
            kit.model.resume()
    assert run.result(10).status == "failed"

    for repeat in (partial(rerun, step=2), retry):
        kit.model.script(Turn(text="Un, deux."))
        assert kit.played(repeat(kit, run.run_id)).output == "Un, deux."
        conversation = [(message["role"], message["content"]) for message in kit.model.requests[-1].messages[-3:]]
        assert conversation == [("user", "Count."), ("assistant", "one two"), ("user", "In French.")]
    kit.model.script(Turn(text="One, two."))
    kit.played(rerun(kit, run.run_id, 1))
    assert kit.model.requests[-1].messages[-1]["content"] == "Count."


def test_a_text_that_was_not_delivered_is_no_part_of_a_rerun_or_a_retry(kit: AgentKit) -> None:
    kit.model.script(Turn(text=["one ", "two"], stall_after=1))
    run = kit.run("Count.")
    for event in run.events():
        if isinstance(event, ResponsePayload) and event.content == "one ":
            kit.runner.steer(run.run_id, "In French.")
        if isinstance(event, ControlPayload) and event.state == "accepted":
            run.cancel()
    controls = [event for event in run.events() if isinstance(event, ControlPayload) and event.verb == "steer"]
    assert [(event.state, event.reason) for event in controls] == [("accepted", None), ("undelivered", "stopped")]

    for repeat in (partial(rerun, step=1), retry):
        kit.model.script(Turn(text="One, two."))
        assert kit.played(repeat(kit, run.run_id)).of(ControlPayload) == []
        assert not any("In French." in str(message["content"]) for message in kit.model.requests[-1].messages)


def test_a_retry_follows_the_turn_that_a_text_began_whose_run_had_failed(kit: AgentKit) -> None:
    run = kit.run("Count.", detached=True, thread_id="talk")
    kit.runner.steer(run.run_id, "In French.")
    harness = JournalHarness(kit.runner.journal.database, process_loop())
    harness.do(harness.own(run.run_id).end("failed"))

    again = retry(kit, run.run_id, detached=True)

    rows = harness.rows(select(runs).where(runs.c.thread_id == "talk").order_by(runs.c.turn))
    assert [row.title for row in rows] == ["Count.", "In French.", "Count."]
    assert rows[-1].id == again.run_id


@pytest.mark.parametrize(("step", "agent_ids"), [(1, ["desk", "bank"]), (2, ["bank"]), (3, ["bank"])])
def test_a_rerun_begins_with_the_agent_that_had_the_step(kit: AgentKit, step: int, agent_ids: list[str]) -> None:
    kit.agent("desk", system_prompt="desk", tools=["ChangeGoal"])
    kit.agent("bank", system_prompt="bank", tools=["ChangeGoal"])
    change = Turn(calls=[Call(name="ChangeGoal", arguments={"goal": "bank"})])
    kit.model.script(change, Turn(text="First."))
    run = kit.run("My bill.", "desk")
    kit.played(run)
    before = len(kit.model.requests)

    kit.model.script(*([change] if step == 1 else []), Turn(text="Again."))
    assert kit.played(rerun(kit, run.run_id, step)).output == "Again."

    assert [request.messages[0]["content"].split()[0] for request in kit.model.requests[before:]] == agent_ids


def test_a_reruns_thread_is_of_the_agent_that_it_begins_with_until_that_hands_over(kit: AgentKit) -> None:
    kit.agent("desk", system_prompt="desk", tools=["ChangeGoal"])
    kit.agent("bank", system_prompt="bank", tools=["ChangeGoal"])
    change = Turn(calls=[Call(name="ChangeGoal", arguments={"goal": "bank"})])
    kit.model.script(change, Turn(text="First."))
    run = kit.run("My bill.", "desk")
    kit.played(run)
    agent_of, own = kit.runner.journal.readers.threads.agent_of, kit.runner.principal
    narrow = replace(own, agents=frozenset({"desk"}))

    kit.model.script(Turn(text="Again."))
    stays = rerun(kit, run.run_id, 1)
    kit.played(stays)
    kit.model.script(change, Turn(text="Again."))
    leaves = rerun(kit, run.run_id, 1)
    kit.played(leaves)
    behind = rerun(kit, run.run_id, 3, detached=True)

    assert [agent_of(own, handle.thread_id) for handle in (run, stays, leaves, behind)] == [
        "bank",
        "desk",
        "bank",
        "bank",
    ]
    with pytest.raises(ThreadUnknown):  # the thread was the other agent's too
        agent_of(narrow, stays.thread_id)


def test_a_call_alone_is_retried_with_its_arguments(kit: AgentKit) -> None:
    handle = kit.runner.call_tool("pay", {"cents": "many"}, agent_id="tester")
    assert kit.played(handle).end.status == "failed"

    assert kit.played(retry(kit, handle.run_id)).end.status == "failed"
    assert PAID == []


def test_what_cannot_be_repeated_is_refused_with_the_remedy(kit: AgentKit) -> None:
    run_id = first(kit, paying(5), Turn(text="Done."))
    kit.model.script(Turn(text=["a", "b"], stall_after=1))
    open_run = kit.run("Wait")

    with raises(RUN_NOT_REPEATABLE, match="has succeeded, so there is nothing to retry; .*rerun"):
        retry(kit, run_id)
    with raises(RUN_NOT_REPEATABLE, match="wait for its end, or stop it with `./callboard cancel"):
        rerun(kit, open_run.run_id, 1)
    with raises(STEP_UNKNOWN, match="has no step 4; its last one is 3"):
        rerun(kit, run_id, 4)
    for other in (Principal(id="ben"), Principal(tenant="zeta")):
        with pytest.raises(RunUnknown):
            rerun(kit, run_id, 1, principal=other)
    kit.model.resume()
    kit.played(open_run)
