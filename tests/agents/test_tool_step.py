"""Right before a tool is called its run is ours, and nobody has stopped it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.context import RunContext
from agents.models.calls import ToolCall
from agents.runner import Runner
from agents.tool_step import ToolStep
from agents.tools.catalogue import tools_of
from agents.window import Window
from bus.journal.threads import Past
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


def begun(house: House) -> tuple[RunContext, ToolStep]:
    """Return a run this process owns, and a call of it that was written down."""
    journal = house.runner.journal
    accepted = journal.accept(new_run())
    lease = journal.loop.run(journal.claim(accepted.run_id))
    assert lease is not None
    context = RunContext(journal, lease, (), Window(Past(items=()), 1000))
    definition = house.runner.registry.get(house.agent("tools: ['tests.agents.sample_tools:add']"))
    call = ToolCall(id="call_1", name="add", arguments_text='{"a": 1, "b": 2}')
    return context, ToolStep(context, call, tools_of(definition, house.settings), 5.0)


def test_a_call_is_made_while_its_run_is_ours(short_house: House) -> None:
    _, step = begun(short_house)

    short_house.runner.journal.loop.run(step.run())

    assert (step.is_begun, step.ended().result) == (True, 3)


def test_no_call_is_made_once_the_stop_was_seen(short_house: House) -> None:
    context, step = begun(short_house)
    context.is_stopped = True

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await step.run()

    short_house.runner.journal.loop.run(run())

    assert not step.is_begun


def test_no_call_is_made_by_a_process_that_was_stopped_for_too_long(short_house: House) -> None:
    context, step = begun(short_house)

    async def after_a_pause() -> None:
        await short_house.runner.journal.keeper.keep(context.writer, context)
        time.sleep(0.25)  # all of this process, as SIGSTOP does it
        await step.run()

    with pytest.raises(StaleOwner):
        short_house.runner.journal.loop.run(after_a_pause())

    assert not step.is_begun
    assert context.writer.is_stale
