"""The runner decides who executes a run: this process where the caller waits, else a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import select

from agents.runner import Runner
from config.database.migrate import migrate
from config.database.tables import outbox
from config.settings import Settings

Open = Callable[[bool], Runner]


@pytest.fixture
def opened(settings: Settings) -> Iterator[Open]:
    migrate(settings)
    runners: list[Runner] = []

    def open_one(inline: bool) -> Runner:
        runners.append(Runner.open(settings, inline=inline))
        return runners[-1]

    yield open_one
    for runner in runners:
        runner.settle(20)
        runner.close()


def announced(runner: Runner) -> list[str]:
    with runner.journal.database.read() as connection:
        return list(connection.execute(select(outbox.c.run_id)).scalars())


def test_a_run_whose_caller_waits_is_executed_by_this_process(opened):
    runner = opened(True)

    handle = runner.run("Hello", "assistant")

    assert handle.result(20).status == "succeeded"
    assert announced(runner) == []


@pytest.mark.parametrize(("inline", "detached"), [(True, True), (False, False), (False, True)])
def test_every_other_run_is_left_to_workers(opened, inline, detached):
    runner = opened(inline)

    handle = runner.run("Hello", "assistant", detached=detached)

    assert announced(runner) == [handle.run_id]
    assert handle.status() == "queued"
