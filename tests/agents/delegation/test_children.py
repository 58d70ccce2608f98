"""Agents as tools: a call is a child run, whose end the parent waits for without an owner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from agents.handle import RunHandle
from agents.models.call import ModelCall
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import tool
from bus.journal.approvals import Decision
from bus.journal.ownership.reaper import fire
from bus.payloads import ChildPayload, Payload, StatusPayload, ToolResultPayload
from config.database.tables import timers
from config.identity.principal import Principal
from handlers.run_agent import handle as execute_inline

Say = Callable[[str], Turn]
"""Answers the message that an agent gets."""


def ask(agent: str, message: str = "Go.") -> Call:
    return Call(name=agent, arguments={"message": message})


def results_in(call: ModelCall) -> list[str]:
    return [str(message["content"]) for message in call.messages if message["role"] == "tool"]


def task_in(call: ModelCall) -> str:
    return next(str(message["content"]) for message in call.messages if message["role"] == "user")


def play_by(kit: AgentKit, turns: dict[str, Turn | Say]) -> None:
    """Answer each agent by what it was asked; with results, repeat them."""

    def respond(call: ModelCall) -> Turn:
        if results := results_in(call):
            return Turn(text=" | ".join(results))
        turn = turns[task_in(call)]
        return turn if isinstance(turn, Turn) else turn(task_in(call))

    kit.model.respond = respond


@pytest.fixture
def kit() -> Iterator[AgentKit]:
    """``tester`` asks ``helper``, which has one unsafe tool."""
    with AgentKit(tools=["agent:helper"]) as agent_kit:
        agent_kit.agent("helper", description="Helps.", tools=[pay])
        yield agent_kit


@tool(labels=["invoices"], confirm=True)
def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: how much.
    """
    return f"paid {amount}"


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def states(events: list[Payload]) -> list[str]:
    return [event.status for event in events if isinstance(event, ChildPayload)]


def shown(kit: AgentKit, run_id: str) -> dict[str, Any]:
    return kit.runner.journal.readers.runs.get(kit.runner.principal, run_id)


def children(kit: AgentKit, run_id: str) -> list[dict[str, Any]]:
    return list(shown(kit, run_id).get("children", ()))


def until_asked(kit: AgentKit, handle: RunHandle) -> dict[str, Any]:
    """Return the child that waits for a person, once the parent's viewers have seen it."""
    for event in handle.events():
        if isinstance(event, ChildPayload) and event.status == "waiting":
            return next(child for child in children(kit, handle.run_id) if child["run_id"] == event.child_run_id)
    raise AssertionError("no child asked")


def kit_timers(kit: AgentKit, kind: str) -> list[Any]:
    with kit.runner.journal.database.read() as connection:
        return list(connection.execute(select(timers.c.run_id, timers.c.id).where(timers.c.kind == kind)).all())


@pytest.mark.parity
def test_the_answer_of_a_child_run_is_the_result_of_the_call(kit: AgentKit) -> None:
    play_by(kit, {"Hello": Turn(calls=[ask("helper", "Add 2 and 3.")]), "Add 2 and 3.": Turn(text="Five.")})

    played = kit.play()

    assert (played.output, played.results("helper")) == ("Five.", ["Five."])
    assert states(list(played.events)) == ["queued", "succeeded"]
    waits = [(event.status, event.reason) for event in played.of(StatusPayload)]
    assert waits[2:4] == [("waiting", "child"), ("queued", "child")]


def test_children_run_at_once_and_their_results_come_in_the_order_of_the_calls(kit: AgentKit) -> None:
    calls = [ask("helper", str(number)) for number in range(5)]
    play_by(kit, {"Hello": Turn(calls=calls), **{str(n): Turn(text=f"answer {n}") for n in range(5)}})

    played = kit.play()

    assert played.results("helper") == [f"answer {n}" for n in range(5)]
    threads = kit.runner.journal.readers.threads.newest(kit.runner.principal)
    assert [thread["title"] for thread in threads] == ["Hello"], "the threads of children are not listed"


def test_a_child_that_fails_is_a_failed_call(kit: AgentKit) -> None:
    kit.agent("helper", output_schema={"type": "object", "properties": {}, "required": ["sum"]})
    play_by(kit, {"Hello": Turn(calls=[ask("helper")]), "Go.": Turn(text="no JSON")})

    played = kit.play()

    [result] = played.of(ToolResultPayload)
    assert result.outcome == "failed"
    assert "output_invalid" in result.result
    assert states(list(played.events)) == ["queued", "failed"]
    assert played.end.status == "succeeded"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"tools": ["agent:tester"]}, "tester -> helper -> tester"),
        ({"access": {"principals": ["ann"]}}, "may not start"),
        ({"guardrails": {"input": {"max_chars": 2}}}, "was not asked"),
    ],
    ids=["a loop", "access", "guardrail"],
)
def test_a_call_that_may_not_be_delegated_is_refused_with_a_sentence(
    kit: AgentKit, fields: dict[str, Any], expected: str
) -> None:
    kit.agent("helper", **fields)
    play_by(kit, {"Hello": Turn(calls=[ask("helper")]), "Go.": Turn(calls=[ask("tester")])})
    principal = Principal(id="bob")

    played = kit.play(principal=principal)

    assert expected in played.output
    assert played.end.status == "succeeded"


def change_to(agent: str) -> Turn:
    return Turn(calls=[Call(name="ChangeGoal", arguments={"goal": agent})])


def test_an_agent_that_handed_a_run_over_is_not_asked_below_it(kit: AgentKit) -> None:
    """Below tester, third continues a run of helper, and asks both."""
    kit.agent("helper", tools=["ChangeGoal"])
    kit.agent("third", tools=["agent:helper", "agent:tester"])
    asks = Turn(calls=[ask("helper"), ask("tester")])
    kit.model.script(Turn(calls=[ask("helper")]), change_to("third"), asks, Turn(text="Done."), Turn(text="Done."))

    played = kit.play()

    refused = results_in(kit.model.requests[3])[1:]
    assert sorted(result.partition("(")[2].partition(")")[0] for result in refused) == [
        "tester -> helper -> third -> helper",
        "tester -> helper -> third -> tester",
    ]
    assert played.results("helper") == ["Done."]


def test_an_agent_that_handed_the_first_run_over_is_not_asked_below_it(kit: AgentKit) -> None:
    kit.agent(tools=["ChangeGoal"])
    kit.agent("helper", tools=["agent:tester"])
    kit.model.script(change_to("helper"), Turn(calls=[ask("tester")]), Turn(text="Done."))

    assert "(tester -> helper -> tester)" in kit.play().results("tester")[0]


def test_a_child_run_is_handed_over_to_no_agent_above_it_and_back_to_its_own(kit: AgentKit) -> None:
    kit.agent("helper", tools=["ChangeGoal"])
    kit.agent("third", tools=["ChangeGoal"])
    kit.model.script(
        Turn(calls=[ask("helper")]),
        change_to("third"),
        change_to("tester"),
        change_to("helper"),
        Turn(text="Mine."),
        Turn(text="Done."),
    )

    played = kit.play()

    refused = results_in(kit.model.requests[3])[-1]
    assert "'tester' has worked above this run already (tester -> third -> tester)" in refused
    assert refused.endswith("Agents to hand over to: helper.")
    assert (played.results("helper"), played.output) == (["Mine."], "Done.")


def test_a_hand_over_is_no_level_of_child_runs() -> None:
    with AgentKit(tools=["agent:helper"], settings={"child_depth": 2}) as kit:
        kit.agent("helper", tools=["ChangeGoal"])
        kit.agent("third", tools=["agent:fourth"])
        kit.agent("fourth")
        asks, done = Turn(calls=[ask("fourth")]), Turn(text="Done.")
        kit.model.script(Turn(calls=[ask("helper")]), change_to("third"), asks, done, done, done)

        assert kit.play().results("helper") == ["Done."]
        assert results_in(kit.model.requests[4])[-1] == "Done."


def test_a_credential_for_some_agents_reaches_no_other_by_a_child(kit: AgentKit) -> None:
    play_by(kit, {"Hello": Turn(calls=[ask("helper")]), "Go.": Turn(text="Done.")})

    narrow = kit.play(principal=Principal(agents=frozenset({"tester"})))
    wide = kit.play(principal=Principal(agents=frozenset({"tester", "helper"})))

    assert "was not asked" in narrow.output
    assert wide.output == "Done."


def test_a_child_has_no_more_rounds_than_its_parent_had_left() -> None:
    with AgentKit(tools=["agent:helper"], max_iterations=1) as kit:
        kit.agent("helper", tools=[look])
        looks = Turn(calls=[Call(name="look")])
        turns = [Turn(calls=[ask("helper")]), looks, Turn(text="One look."), Turn(text="Done.")]
        kit.model.script(*turns)

        played = kit.play()

    assert played.results("helper") == ["One look."]
    assert kit.model.requests[2].tool_choice == "none"


def test_no_child_is_deeper_than_the_limit() -> None:
    with AgentKit(tools=["agent:one"], settings={"child_depth": 2}) as kit:
        kit.agent("one", tools=["agent:two"])
        kit.agent("two", tools=["agent:three"])
        kit.agent("three")
        turns: dict[str, Turn | Say] = {"a": Turn(calls=[ask("two", "b")]), "b": Turn(calls=[ask("three", "c")])}
        play_by(kit, turns | {"Hello": Turn(calls=[ask("one", "a")])})

        played = kit.play()

    assert "CALLBOARD_CHILD_DEPTH" in played.output


def test_a_run_has_no_more_children_at_a_time_than_the_limit() -> None:
    with AgentKit(tools=["agent:helper"], settings={"child_runs": 2}) as kit:
        kit.agent("helper")
        play_by(kit, {"Hello": Turn(calls=[ask("helper")] * 3), "Go.": Turn(text="fine")})

        played = kit.play()

    refused, *others = sorted(played.results("helper"))
    assert "CALLBOARD_CHILD_RUNS" in refused
    assert others == ["fine", "fine"]


def test_a_childs_question_is_seen_at_the_parent_and_its_labels_come_back(kit: AgentKit) -> None:
    play_by(kit, {"Hello": Turn(calls=[ask("helper")]), "Go.": Turn(calls=[Call(name="pay", arguments={"amount": 5})])})
    handle = kit.run()
    child = until_asked(kit, handle)

    [approval_id] = child["approvals"]
    kit.runner.handle(child["run_id"]).decide(approval_id, Decision(decision="approve"))

    assert handle.result(20).output == "paid 5"
    assert states(list(handle.events())) == ["queued", "waiting", "queued", "succeeded"]
    row = kit.runner.journal.readers.runs.row(kit.runner.principal, handle.run_id)
    assert "invoices" in row.labels_json


def test_one_child_is_stopped_and_its_sibling_goes_on(kit: AgentKit) -> None:
    play_by(
        kit,
        {
            "Hello": Turn(calls=[ask("helper", "quick"), ask("helper", "slow")]),
            "quick": Turn(text="Quick."),
            "slow": Turn(calls=[Call(name="pay", arguments={"amount": 5})]),
        },
    )
    handle = kit.run()
    child = until_asked(kit, handle)

    kit.runner.handle(child["run_id"]).cancel()

    end = handle.result(20)
    assert end.status == "succeeded"
    assert end.output.startswith("Quick. | Error: the run run_")
    assert "was stopped" in end.output


def test_a_child_whose_time_is_over_is_stopped(kit: AgentKit) -> None:
    kit.agent(tools=["agent:helper"], tool_overrides={"helper": {"timeout_s": 0.05}})
    play_by(kit, {"Hello": Turn(calls=[ask("helper")]), "Go.": Turn(calls=[Call(name="pay", arguments={"amount": 5})])})
    handle = kit.run()
    child = until_asked(kit, handle)

    [(run_id, timer_id)] = kit_timers(kit, "limit")
    fire(kit.runner.journal.database, run_id, timer_id)
    assert run_id == child["run_id"]

    assert "was stopped" in handle.result(20).output


def test_a_stop_reaches_three_levels_of_children() -> None:
    with AgentKit(tools=["agent:one"]) as kit:
        kit.agent("one", tools=["agent:two"])
        kit.agent("two", tools=["agent:three"])
        kit.agent("three", tools=[pay])
        turns: dict[str, Turn | Say] = {"Hello": Turn(calls=[ask("one", "1")]), "1": Turn(calls=[ask("two", "2")])}
        turns |= {"2": Turn(calls=[ask("three", "3")]), "3": Turn(text=["never ", "whole"], stall_after=1)}
        play_by(kit, turns)
        handle = kit.run()
        assert kit.model.wait_for_requests(4)

        handle.cancel()

        assert handle.result(20).status == "cancelled"
        family = children(kit, handle.run_id)
        ends = [kit.runner.handle(child["run_id"]).result(20).status for child in family]
    assert [child["agent"] for child in family] == ["one", "two", "three"]
    assert ends == ["cancelled"] * 3


def test_a_question_that_a_child_asks_while_its_parent_works_is_seen_at_the_parent(kit: AgentKit) -> None:
    is_asked = threading.Event()

    @tool(effect="pure")
    def slow() -> str:
        """Return once the child has asked."""
        assert is_asked.wait(20)
        return "slept"

    kit.agent("busy", tools=["agent:helper", slow])
    calls, payment = [ask("helper"), Call(name="slow")], Call(name="pay", arguments={"amount": 5})
    play_by(kit, {"Hello": Turn(calls=calls), "Go.": Turn(calls=[payment])})
    handle = kit.run(agent_id="busy")
    begun = next(event for event in handle.events() if isinstance(event, ChildPayload))
    journal = kit.runner.journal
    [message] = journal.loop.run(journal.loop.read(journal.readers.runs.messages_of_children, handle.run_id), 20)
    journal.loop.submit(execute_inline(message))  # as a worker would; its parent's process waits for the parent first
    for event in kit.runner.handle(begun.child_run_id).events():
        if isinstance(event, StatusPayload) and event.status == "waiting":
            break
    is_asked.set()

    child = until_asked(kit, handle)
    kit.runner.handle(child["run_id"]).decide(child["approvals"][0], Decision(decision="approve"))

    assert handle.result(20).output == "slept | paid 5"
    assert states(list(handle.events())) == ["queued", "waiting", "queued", "succeeded"]
