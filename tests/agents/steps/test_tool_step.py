"""One call: right before it the run is ours and was not stopped; how long it may take, and what came of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from agents.catalogue import tools_of
from agents.context import MARGIN_S, RunContext
from agents.models.streams.tool_calls import ToolCall
from agents.prompt import Window
from agents.steps.call_work import NOT_YET
from agents.steps.tool_step import ToolStep
from agents.testing import AgentKit
from agents.tools import tool
from bus.journal.clients import STOPPED
from bus.journal.errors import StaleOwner
from bus.journal.owner import Past, StepEnded
from bus.journal.ownership import lease_manager as lease_manager_module
from bus.journal.ownership import leases
from bus.journal.run_end import NOT_FINISHED, NOT_KNOWN
from config.database.engine import Database
from config.effects import Effect
from tests.bus.journal_harness import new_run, suspend

never = threading.Event()


def find_order(key: str) -> str | None:
    """Nothing is known of any order."""
    return None


@tool(effect="checkable", check=find_order, timeout_s=0.1)
def order_slowly() -> str:
    """Order over a connection so slow that the order leaves after its caller has given up."""
    never.wait()
    return "unreachable"


@tool(effect="unsafe", timeout_s=60)
def post() -> str:
    """Post a letter."""
    return "posted"


@tool(effect="idempotent", timeout_s=60)
async def put_slowly() -> str:
    """Put something somewhere, for an hour."""
    await asyncio.sleep(3600)
    return "unreachable"


@tool(effect="pure", timeout_s=60)
async def look_slowly() -> str:
    """Look at something for an hour."""
    await asyncio.sleep(3600)
    return "unreachable"


def begun(
    kit: AgentKit, path: str = "tests.agents.sample_tools:add", arguments: str = "{}"
) -> tuple[RunContext, ToolStep]:
    """Return a run this process owns, and a call of it that was written down."""
    journal = kit.runner.journal
    accepted = journal.clients.accept(new_run())
    lease = journal.loop.run(journal.owner.claim(accepted.run_id))
    assert lease is not None
    context = RunContext(journal, lease, (), Window(Past(items=()), 1000))
    definition = kit.runner.registry.get(kit.agent(tools=[path]))
    call = ToolCall(id="call_1", name=path.partition(":")[2], arguments_text=arguments)
    return context, ToolStep(context, call, tools_of(definition, kit.settings), 5.0)


def ended(step: ToolStep) -> StepEnded:
    """Return the journal's line of a call's end."""
    (line,) = step.outcome("msg_1").ended
    return line


def test_a_call_is_made_while_its_run_is_ours(kit: AgentKit) -> None:
    _, step = begun(kit, arguments='{"a": 1, "b": 2}')

    kit.runner.journal.loop.run(step.run())

    assert (step.work.is_begun, ended(step).result) == (True, 3)


def test_no_call_is_made_once_the_stop_was_seen(kit: AgentKit) -> None:
    context, step = begun(kit, arguments='{"a": 1, "b": 2}')
    context.inbox.is_stopped = True

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await step.run()

    kit.runner.journal.loop.run(run())

    assert not step.work.is_begun


@pytest.fixture
def quick_kit() -> Iterator[AgentKit]:
    """A kit with frequent heartbeats."""
    with AgentKit(settings={"beat_s": 0.05}) as agent_kit:
        yield agent_kit


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_process_that_was_stopped_makes_a_call_only_once_it_knows_that_the_run_is_its_own(
    quick_kit: AgentKit, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    kit = quick_kit
    context, step = begun(kit, arguments='{"a": 1, "b": 2}')
    lease_manager, is_asked = kit.runner.journal.owner.lease_manager, threading.Event()

    def beat(database: Database, owner: str, lease_s: float, owned: Sequence[tuple[str, int]]) -> list[Any]:
        is_asked.wait(20)
        return [] if is_lost else leases.beat(database, owner, lease_s, owned)

    monkeypatch.setattr(lease_manager_module, "beat", beat)

    async def after_a_pause() -> None:
        await lease_manager.track(context.writer, context)
        suspend(lease_manager)
        call = asyncio.create_task(step.run())
        await asyncio.sleep(0.05)
        assert not step.work.is_begun
        is_asked.set()
        await call

    with pytest.raises(StaleOwner) if is_lost else nullcontext():
        kit.runner.journal.loop.run(after_a_pause(), 20)

    assert step.work.is_begun is not is_lost
    assert context.writer.is_stale is is_lost


def test_a_call_whose_run_ends_right_before_it_was_not_begun(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    _, step = begun(kit, "tests.agents.steps.test_tool_step:post")

    def stop(_: str) -> None:
        raise asyncio.CancelledError

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await step.run()

    monkeypatch.setattr("agents.steps.call_work.failpoint", stop)
    kit.runner.journal.loop.run(run())
    step.cut_off(STOPPED)

    assert (step.record.effect, ended(step).status, ended(step).result) == (Effect.UNSAFE, "cancelled", NOT_FINISHED)


# --- how long it may take


def test_of_calls_at_once_the_latest_deadline_counts_until_it_is_over(kit: AgentKit) -> None:
    context, _ = begun(kit)
    passed = -MARGIN_S - 1

    assert context.is_within_time
    with context.within(passed):
        assert not context.is_within_time
        with context.within(60):  # the first one may be waiting for this one's thread
            assert context.is_within_time
        assert not context.is_within_time
    assert context.is_within_time


def test_the_heartbeats_thread_may_ask_while_steps_begin_and_end(kit: AgentKit) -> None:
    context, _ = begun(kit)
    is_over = threading.Event()
    refused: list[bool] = []

    def ask() -> None:
        while not is_over.is_set():
            if not context.is_within_time:
                refused.append(True)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        for _ in range(20_000):
            with context.within(60):
                pass
        is_over.set()
        asking.result(20)

    assert refused == []


def test_a_call_has_its_deadline_while_it_is_made(kit: AgentKit, monkeypatch: pytest.MonkeyPatch) -> None:
    context, step = begun(kit, arguments='{"a": 1, "b": 2}')
    seen: list[bool] = []
    monkeypatch.setattr("agents.context.MARGIN_S", -1000.0)
    monkeypatch.setattr("agents.steps.call_work.failpoint", lambda _: seen.append(context.is_within_time))

    kit.runner.journal.loop.run(step.run())

    assert seen == [False, False]
    assert context.is_within_time


# --- what came of it


def test_an_order_that_may_still_leave_is_not_called_forgotten(kit: AgentKit) -> None:
    _, step = begun(kit, "tests.agents.steps.test_tool_step:order_slowly")

    kit.runner.journal.loop.run(step.run())

    assert (ended(step).status, ended(step).result) == ("unknown", NOT_YET)


@pytest.mark.parametrize(("name", "outcome"), [("put_slowly", "unknown"), ("look_slowly", "cancelled")])
def test_what_is_cut_off_is_unknown_unless_it_changes_nothing(kit: AgentKit, name: str, outcome: str) -> None:
    _, step = begun(kit, f"tests.agents.steps.test_tool_step:{name}")

    async def cut_off() -> None:
        call = asyncio.create_task(step.run())
        while not step.work.is_begun:
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        step.cut_off(STOPPED)

    kit.runner.journal.loop.run(cut_off())

    assert ended(step).status == outcome
    assert ended(step).result == (NOT_KNOWN if outcome == "unknown" else NOT_FINISHED)
