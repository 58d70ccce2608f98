"""One call: right before it its run is ours and nobody has stopped it; how long it may take, and what came of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from agents.context import MARGIN_S, RunContext
from agents.models.calls import ToolCall
from agents.runner import Runner
from agents.tool_step import NOT_YET, ToolStep
from agents.tools import tool
from agents.tools.catalogue import tools_of
from agents.window import Window
from bus.journal import keeper as keepers
from bus.journal import leases
from bus.journal.leases import Beat
from bus.journal.threads import Past
from config.database import Database
from config.errors import StaleOwner
from config.migrate import migrate
from config.settings import Settings
from tests.bus.world import new_run
from tests.house import House
from tests.model_server import ModelServer


@pytest.fixture
def short_house(settings: Settings, tmp_path: Path) -> Iterator[House]:
    """Leases of which nothing may be heard for a fifth of a second."""
    ours = settings.model_copy(update={"agents_dir": str(tmp_path / "agents"), "lease_s": 0.3, "beat_s": 0.1})
    migrate(ours)
    runner = Runner.open(ours)
    yield House(runner, ModelServer(), tmp_path / "agents")
    runner.close()


never = threading.Event()


def find_order(key: str) -> str | None:
    """Nothing is known of any order."""
    return None


@tool(effect="checkable", check=find_order, timeout_s=0.1)
def order_slowly() -> str:
    """Order over a connection so slow that the order leaves when nobody waits for it any more."""
    never.wait()
    return "unreachable"


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
    house: House, path: str = "tests.agents.sample_tools:add", arguments: str = "{}"
) -> tuple[RunContext, ToolStep]:
    """Return a run this process owns, and a call of it that was written down."""
    journal = house.runner.journal
    accepted = journal.accept(new_run())
    lease = journal.loop.run(journal.claim(accepted.run_id))
    assert lease is not None
    context = RunContext(journal, lease, (), Window(Past(items=()), 1000))
    definition = house.runner.registry.get(house.agent(f"tools: ['{path}']"))
    call = ToolCall(id="call_1", name=path.partition(":")[2], arguments_text=arguments)
    return context, ToolStep(context, call, tools_of(definition, house.settings), 5.0)


def test_a_call_is_made_while_its_run_is_ours(short_house: House) -> None:
    _, step = begun(short_house, arguments='{"a": 1, "b": 2}')

    short_house.runner.journal.loop.run(step.run())

    assert (step.is_begun, step.ended().result) == (True, 3)


def test_no_call_is_made_once_the_stop_was_seen(short_house: House) -> None:
    context, step = begun(short_house, arguments='{"a": 1, "b": 2}')
    context.is_stopped = True

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await step.run()

    short_house.runner.journal.loop.run(run())

    assert not step.is_begun


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_process_that_was_stopped_makes_a_call_only_once_it_knows_that_the_run_is_its_own(
    short_house: House, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    context, step = begun(short_house, arguments='{"a": 1, "b": 2}')
    keeper, is_asked = short_house.runner.journal.keeper, threading.Event()

    def beat(database: Database, owner: str, lease_s: float, owned: Sequence[tuple[str, int]]) -> list[Beat]:
        is_asked.wait(20)
        return [] if is_lost else leases.beat(database, owner, lease_s, owned)

    monkeypatch.setattr(keepers, "beat", beat)

    async def after_a_pause() -> None:
        await keeper.keep(context.writer, context)
        keeper._last_good_s -= 1000  # as after SIGSTOP
        call = asyncio.create_task(step.run())
        await asyncio.sleep(0.05)
        assert not step.is_begun
        is_asked.set()
        await call

    with pytest.raises(StaleOwner) if is_lost else nullcontext():
        short_house.runner.journal.loop.run(after_a_pause(), 20)

    assert step.is_begun is not is_lost
    assert context.writer.is_stale is is_lost


# --- how long it may take


def test_of_calls_at_once_the_latest_deadline_counts_until_it_is_over(short_house: House) -> None:
    context, _ = begun(short_house)
    passed = -MARGIN_S - 1

    assert context.is_within_time
    with context.within(passed):
        assert not context.is_within_time
        with context.within(60):  # the first one may be waiting for this one's thread
            assert context.is_within_time
        assert not context.is_within_time
    assert context.is_within_time


def test_the_heartbeats_thread_may_ask_while_the_last_step_ends(
    short_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndsMeanwhile(dict[object, float]):
        def __len__(self) -> int:
            return 1  # looked at a moment too early

    context, _ = begun(short_house)
    monkeypatch.setattr(context, "_deadlines", EndsMeanwhile())

    assert context.is_within_time


def test_a_call_has_its_deadline_while_it_is_made(short_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    context, step = begun(short_house, arguments='{"a": 1, "b": 2}')
    seen: list[bool] = []
    monkeypatch.setattr("agents.context.MARGIN_S", -1000.0)
    monkeypatch.setattr("agents.tool_step.failpoint", lambda _: seen.append(context.is_within_time))

    short_house.runner.journal.loop.run(step.run())

    assert seen == [False, False]
    assert context.is_within_time


# --- what came of it


def test_an_order_that_may_still_leave_is_not_called_forgotten(short_house: House) -> None:
    _, step = begun(short_house, "tests.agents.test_tool_step:order_slowly")

    short_house.runner.journal.loop.run(step.run())

    assert (step.ended().status, step.ended().result) == ("unknown", NOT_YET)


@pytest.mark.parametrize(("name", "outcome"), [("put_slowly", "unknown"), ("look_slowly", "failed")])
def test_what_is_cut_off_is_unknown_unless_it_changes_nothing(short_house: House, name: str, outcome: str) -> None:
    _, step = begun(short_house, f"tests.agents.test_tool_step:{name}")

    async def cut_off() -> None:
        call = asyncio.create_task(step.run())
        while not step.is_begun:
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        step.interrupt("The run failed")

    short_house.runner.journal.loop.run(cut_off())

    assert step.ended().status == outcome
    assert str(step.ended().result).startswith("The run failed")
