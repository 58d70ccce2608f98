"""Later calls of a tool that a person has approved too: made without a question, until that ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from agents.catalogue import as_tool
from agents.context import RunContext
from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.tool import Tool, tool
from bus.journal.approvals import Decision
from bus.journal.owner import StickyApproval
from bus.journal.readers import steps_of
from bus.payloads import ApprovalPayload, ToolResultPayload
from config.identity.principal import Principal

calls_made: list[int] = []


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    calls_made.clear()


def ordering(sticky: Collection[str] = ("thread", "tool"), about: str = "Order something.", **more: Any) -> Any:
    """Return a tool whose approvals may hold for later calls too."""

    def order(boxes: int) -> str:
        calls_made.append(boxes)
        return f"ordered {boxes}"

    order.__doc__ = about
    return tool(effect="unsafe", confirm=True, sticky=sticky, sticky_s=600, **more)(order)


def call(boxes: int) -> Call:
    return Call(name="order", arguments={"boxes": boxes})


def asks(kit: AgentKit, boxes: int, order: Callable[..., Any] | Tool | None = None, **options: Any) -> RunHandle:
    """Return a run that calls the tool, and waits."""
    kit.agent(tools=[order or ordering()])
    kit.model.script(Turn(calls=[call(boxes)]), Turn(text="Done."))
    handle = kit.run(**options)
    next(event for event in handle.events() if isinstance(event, ApprovalPayload))
    return handle


def approve(handle: RunHandle, **options: Any) -> None:
    (approval,) = handle.approvals()
    handle.decide(approval["approval_id"], Decision(decision="approve", **options), by="ann")
    assert handle.result(30).status == "succeeded"


def plays(kit: AgentKit, *boxes: int, order: Callable[..., Any] | Tool | None = None, **options: Any) -> RunHandle:
    """Return a run that made these calls without a question."""
    kit.agent(tools=[order or ordering()])
    kit.model.script(Turn(calls=[call(number) for number in boxes]), Turn(text="Done."))
    handle = kit.run(**options)
    assert handle.result(30).status == "succeeded"
    events = list(handle.events())
    assert [event for event in events if isinstance(event, ApprovalPayload)] == []
    assert {event.outcome for event in events if isinstance(event, ToolResultPayload)} == {"done"}
    return handle


def decisions(kit: AgentKit, handle: RunHandle) -> list[dict[str, Any]]:
    """Return what was decided about each tool call of a run."""
    with kit.runner.journal.database.read() as connection:
        steps = [step for step in steps_of(connection, handle.run_id) if step["kind"] == "tool"]
    return [orjson.loads(step["decision_json"]) for step in steps]


def test_later_calls_of_the_thread_are_made_without_a_question(kit: AgentKit) -> None:
    approve(asks(kit, 1, thread_id="talk"), scope="thread")

    handle = plays(kit, 2, 3, thread_id="talk")

    assert sorted(calls_made) == [1, 2, 3]
    for decision in decisions(kit, handle):
        assert decision["approved"].startswith("approved by ann for this thread until 20")


def test_another_thread_asks_unless_the_scope_is_the_tool(kit: AgentKit) -> None:
    approve(asks(kit, 1, thread_id="talk"), scope="thread")
    other = asks(kit, 2, thread_id="other")

    assert calls_made == [1]
    approve(other, scope="tool")
    plays(kit, 3, thread_id="third")
    assert calls_made == [1, 2, 3]


def test_a_later_call_of_the_same_run_is_covered(kit: AgentKit) -> None:
    kit.agent(tools=[ordering()])
    kit.model.script(Turn(calls=[call(1)]), Turn(calls=[call(2)]), Turn(text="Done."))
    handle = kit.run()
    next(event for event in handle.events() if isinstance(event, ApprovalPayload))

    approve(handle, scope="thread")

    assert calls_made == [1, 2]


@pytest.mark.parametrize(
    "order",
    [
        ordering(about="Order something else."),
        ordering(version="2.0.0"),
        ordering(sticky=()),
        ordering(sticky=("tool",)),
        ordering(approvers=2),
    ],
    ids=["description", "version", "not offered any more", "another scope", "two persons"],
)
def test_a_changed_tool_asks_again(kit: AgentKit, order: Callable[..., Any]) -> None:
    approve(asks(kit, 1, thread_id="talk"), scope="thread")

    asks(kit, 2, order, thread_id="talk").cancel()

    assert calls_made == [1]


def test_another_principal_asks(kit: AgentKit) -> None:
    approve(asks(kit, 1), scope="tool")

    asks(kit, 2, principal=Principal(id="ben")).cancel()

    assert calls_made == [1]


def test_one_that_was_ended_asks_again(kit: AgentKit) -> None:
    approve(asks(kit, 1, thread_id="talk"), scope="thread")
    sticky = kit.runner.journal.stores.sticky_approvals
    (entry,) = sticky.page(Principal())
    sticky.revoke(Principal(), entry["sticky_id"], by="local")

    asks(kit, 2, thread_id="talk").cancel()

    assert calls_made == [1]


def test_one_that_is_ended_between_its_reading_and_the_start_of_the_call_asks(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve(asks(kit, 1, thread_id="talk"), scope="thread")
    sticky = kit.runner.journal.stores.sticky_approvals
    read = RunContext.read_sticky

    async def and_end(self: RunContext, tools: Sequence[Tool | None]) -> None:
        await read(self, tools)
        for entry in self.sticky:
            sticky.revoke(Principal(), entry.id, by="local")

    monkeypatch.setattr(RunContext, "read_sticky", and_end)
    handle = asks(kit, 2, thread_id="talk")

    assert calls_made == [1]
    approve(handle)
    assert calls_made == [1, 2]


def test_a_tool_without_sticky_approvals_reads_none(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> tuple[StickyApproval, ...]:
        raise AssertionError("sticky approvals were read")

    monkeypatch.setattr(kit.runner.journal.stores.sticky_approvals, "valid_of", refuse)

    asks(kit, 1, ordering(sticky=())).cancel()


def test_a_tool_call_without_an_agents_turn_is_covered(kit: AgentKit) -> None:
    approve(asks(kit, 1), scope="tool")

    handle = kit.runner.call_tool("order", {"boxes": 5}, agent_id="tester")

    assert handle.result(30).output == "ordered 5"
    assert calls_made == [1, 5]


# --- offered by a rule -------------------------------------------------------------------------------


ASKED_BY_RULE = replace(as_tool(ordering(sticky=())), confirm=False)


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[Callable[..., AgentKit]]:
    """Return a kit whose policy has rules that require an approval, each with these further fields."""
    with ExitStack() as kits:

        def make(*rules: str) -> AgentKit:
            head = "when: {tools: [order]}, verdict: require_approval, reason: It costs money."
            written = [f"  - {{name: rule-{number}, {head}{more}}}\n" for number, more in enumerate(rules)]
            file = tmp_path / "policy.yaml"
            file.write_text("rules:\n" + "".join(written))
            return kits.enter_context(AgentKit(settings={"policy": str(file)}))

        yield make


def test_a_rule_offers_that_an_approval_holds(ruled: Callable[..., AgentKit]) -> None:
    kit = ruled(", sticky: [thread], sticky_s: 60")
    first = asks(kit, 1, ASKED_BY_RULE, thread_id="talk")

    (approval,) = first.approvals()
    approve(first, scope="thread")
    plays(kit, 2, order=ASKED_BY_RULE, thread_id="talk")

    assert (approval["scopes"], approval["scope_s"]) == (["thread"], 60)
    assert calls_made == [1, 2]


def offered(kit: AgentKit, order: Tool) -> list[str]:
    """Return what a question offers, and answer it."""
    handle = asks(kit, 1, order)
    (approval,) = handle.approvals()
    approve(handle)
    return list(approval["scopes"])


def test_only_what_all_rules_offer_is_offered(ruled: Callable[..., AgentKit]) -> None:
    assert offered(ruled(", sticky: [thread, tool]", ", sticky: [tool]"), ASKED_BY_RULE) == ["tool"]


def test_a_rule_that_offers_nothing_keeps_others_from_it(ruled: Callable[..., AgentKit]) -> None:
    assert offered(ruled(", sticky: [thread, tool]", ""), ASKED_BY_RULE) == []


def test_a_rule_offers_no_more_than_the_tool_that_asks_itself(ruled: Callable[..., AgentKit]) -> None:
    assert offered(ruled(", sticky: [thread]"), replace(ASKED_BY_RULE, confirm=True)) == []
