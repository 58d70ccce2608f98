"""Calls that were given up: counted until they end, shown, and a tool with many of them is not called."""

import asyncio
import threading
import time

import pytest

from agents.errors import ToolTimeout
from agents.tools.execution import executor
from agents.tools.execution.executor import MAX_OF_PROCESS, MAX_OF_TOOL, AbandonedCalls, call_tool
from agents.tools.schema import build_tool
from config.errors import ToolFailed


@pytest.fixture
def calls(monkeypatch):
    """The process's calls, of this test alone."""
    own = AbandonedCalls()
    monkeypatch.setattr("agents.tools.execution.executor.ABANDONED", own)
    return own


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


def test_a_call_is_counted_until_it_ends():
    calls, ended = AbandonedCalls(), threading.Event()
    calls.add("slow", ended.is_set)
    calls.add("slow", lambda: False)
    calls.add("other", lambda: False)

    before = calls.counts()
    ended.set()

    assert before == {"slow": 2, "other": 1}
    assert calls.counts() == {"slow": 1, "other": 1}


def test_a_tool_with_many_such_calls_is_refused_and_no_other():
    calls = AbandonedCalls()
    for _ in range(MAX_OF_TOOL):
        calls.add("slow", lambda: False)

    assert calls.refusal("slow") == "8 earlier calls of it were given up and have not ended, of 8 in this worker"
    assert calls.refusal("fast") is None


def test_in_a_worker_with_many_such_calls_one_is_enough():
    calls = AbandonedCalls()
    for number in range(MAX_OF_PROCESS):
        calls.add(f"slow_{number}", lambda: False)

    assert calls.refusal("slow_3") is not None
    assert calls.refusal("fast") is None


def test_a_plain_tool_that_does_not_end_is_called_eight_times(calls, gate, context):
    def slow() -> None:
        """Wait."""
        gate.wait(30)

    def fast() -> str:
        """Answer."""
        return "here"

    async def all_of_them():
        attempts = [call_tool(build_tool(slow), {}, context, 0.05) for _ in range(MAX_OF_TOOL)]
        given_up = await asyncio.gather(*attempts, return_exceptions=True)
        with pytest.raises(ToolFailed, match="slow was not called: 8 earlier calls of it were given up"):
            await call_tool(build_tool(slow), {}, context, 5)
        return given_up, await call_tool(build_tool(fast), {}, context, 5)

    given_up, answer = asyncio.run(all_of_them())

    assert {type(error) for error in given_up} == {ToolTimeout}
    assert answer == "here"
    assert calls.counts() == {"slow": MAX_OF_TOOL}


def test_the_tool_is_called_again_when_its_calls_have_ended(calls, gate, context):
    def slow() -> str:
        """Wait."""
        gate.wait(30)
        return "at last"

    async def again():
        attempts = [call_tool(build_tool(slow), {}, context, 0.05) for _ in range(MAX_OF_TOOL)]
        await asyncio.gather(*attempts, return_exceptions=True)
        gate.set()
        while calls.counts():
            await asyncio.sleep(0.01)
        return await call_tool(build_tool(slow), {}, context, 5)

    assert asyncio.run(again()) == "at last"


def test_a_cancelled_call_has_time_to_end_before_it_counts():
    calls = AbandonedCalls()
    calls.add("soon", lambda: False, after_s=0.05)

    before = calls.counts()
    time.sleep(0.06)

    assert (before, calls.counts()) == ({}, {"soon": 1})


def test_an_async_tool_that_ignores_its_end_is_counted(calls, context, monkeypatch):
    monkeypatch.setattr("agents.tools.execution.executor.CANCELLED_S", 0.0)

    async def stubborn() -> None:
        """Stay."""
        for _ in range(20):
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    async def given_up():
        with pytest.raises(ToolTimeout):
            await call_tool(build_tool(stubborn), {}, context, 0.01)
        await asyncio.sleep(0)
        meanwhile = calls.counts()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        return meanwhile

    assert asyncio.run(given_up()) == {"stubborn": 1}
    assert calls.counts() == {}


def test_a_forked_child_has_none_of_its_parents_calls():
    assert executor.ABANDONED.counts() == {}
