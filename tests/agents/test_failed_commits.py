"""A commit that fails for good ends its run with a result for every call, so that the thread's next turn is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.steps.tool_step import ToolStep
from agents.testing import AgentKit, Call, Turn
from bus.journal.readers import read_record
from cli.crashlab.invariants import not_recovered
from config.identity.principal import Principal
from tests.agents import sample_tools
from tests.bus.faulty_commits import Fault, FaultyCommits

ADD = [Call(name="add", arguments={"a": 1, "b": number}) for number in (1, 2)]


def fail(kit: AgentKit, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let these commits of the next run's writer fail for good; the first has the message with its calls."""
    faults: Iterator[Fault | None] = ("damaged" if number in numbers else None for number in range(1, 100))
    FaultyCommits(kit.runner.journal.database, monkeypatch, lambda: next(faults))


def assert_closed(kit: AgentKit, thread_id: str, results: int) -> None:
    """The thread's one run is whole, and its history has a result for each call."""
    with kit.runner.journal.database.read() as connection:
        assert not_recovered(read_record(connection, thread_id)) == []
    items = kit.runner.journal.readers.threads.messages(Principal(), thread_id)
    assert [item["role"] for item in items].count("tool") == results


@pytest.mark.parametrize(
    ("calls", "failed"),
    [
        pytest.param(ADD[:1], 2, id="the only result, with the next step"),
        pytest.param(ADD, 2, id="the first of two results"),
        pytest.param(ADD, 3, id="the last of two results, with the next step"),
    ],
)
def test_a_result_whose_commit_failed_is_committed_with_the_end(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch, calls: list[Call], failed: int
) -> None:
    kit.agent(tools=[sample_tools.add])
    kit.model.script(Turn(calls=calls), Turn(text="Continued."))
    fail(kit, monkeypatch, failed)

    handle = kit.run()

    assert handle.result(10).status == "failed"
    assert_closed(kit, handle.thread_id, len(calls))
    assert kit.run(thread_id=handle.thread_id).result(10).status == "succeeded"


def test_a_run_whose_end_cannot_be_written_either_is_ended_from_the_journal(
    kit: AgentKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a result that the database does not take: the end has it too."""
    kit.agent(tools=[sample_tools.add])
    kit.model.script(Turn(calls=ADD[:1]), Turn(text="Continued."))

    def unexpected(*_: Any) -> Any:
        raise TypeError("this is unexpected")

    with monkeypatch.context() as broken:
        broken.setattr(ToolStep, "outcome", unexpected)
        handle = kit.run()
        assert handle.result(10).status == "failed"

    assert_closed(kit, handle.thread_id, 1)
