"""Calling tools: whatever one does costs its own call and nothing else."""

import asyncio
import contextvars
import sys
import threading
import time
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from agents.errors import PathRefused, ToolTimeout
from agents.process import open_process
from agents.tools.call_context import current_call
from agents.tools.execution import executor
from agents.tools.execution.executor import MAX_THREADS, call_tool
from agents.tools.results import MAX_BYTES, to_result
from agents.tools.schema import build_tool
from config.database.migrate import migrate
from config.errors import ToolCutOff, ToolFailed

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def test_a_plain_tool_runs_on_a_daemon_thread_inside_its_call(call):
    def where() -> list[object]:
        """Tell."""
        thread = threading.current_thread()
        return [thread is threading.main_thread(), thread.daemon, current_call().call_id]

    assert call(where) == [False, True, "call_1"]


def test_an_async_tool_runs_on_the_loop_inside_its_call(call):
    async def where() -> list[object]:
        """Tell."""
        return [threading.current_thread() is threading.main_thread(), current_call().call_id]

    assert call(where) == [True, "call_1"]


def test_context_variables_reach_the_thread(call):
    def seen() -> str:
        """Tell."""
        return colour.get()

    colour.set("green")

    assert call(seen) == "green"


@pytest.mark.parametrize("kind", [ValueError, StopIteration, KeyError])
def test_an_exception_is_reported_by_type_and_text(call, kind):
    def broken() -> None:
        """Break."""
        raise kind("no luck")

    with pytest.raises(ToolFailed) as caught:
        call(broken)

    assert kind.__name__ in str(caught.value)
    assert "no luck" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_long_message_is_capped(call):
    def broken() -> None:
        """Break."""
        raise ValueError("x" * 10_000)

    with pytest.raises(ToolFailed) as caught:
        call(broken)

    assert len(str(caught.value)) == 2000


def test_our_own_errors_pass_as_they_are(call):
    def refused() -> None:
        """Refuse."""
        raise PathRefused("not there")

    with pytest.raises(PathRefused, match="not there"):
        call(refused)


def leave_plainly() -> None:
    """Leave."""
    sys.exit(3)


async def leave_async() -> None:
    """Leave."""
    raise SystemExit(3)


async def interrupt() -> None:
    """Interrupt."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("function", [leave_plainly, leave_async, interrupt])
def test_a_tool_cannot_end_the_process(call, function):
    with pytest.raises(ToolFailed, match=r"SystemExit|KeyboardInterrupt"):
        call(function)


def test_an_exception_whose_text_cannot_be_had_is_still_a_failure(call):
    class Hopeless(Exception):
        def __str__(self):
            raise RuntimeError("never")

    def broken() -> None:
        """Break."""
        raise Hopeless

    with pytest.raises(ToolFailed, match="Hopeless"):
        call(broken)


def test_a_result_that_cannot_be_written_is_a_failure(call):
    class Mute:
        def __str__(self):
            raise RuntimeError("mute")

    def mute() -> object:
        """Be mute."""
        return Mute()

    with pytest.raises(ToolFailed, match="not JSON serializable: Mute"):
        call(mute)


@pytest.fixture
def free() -> int:
    """Places that are free: tools of other tests of this process may hang in the rest."""
    return slots_returned(MAX_THREADS, 1)


def test_a_plain_tool_that_never_returns_keeps_its_place_until_it_does(context, caplog, free):
    forever, called, begun = threading.Event(), [], []

    def stuck() -> None:
        """Never return."""
        called.append(True)
        forever.wait()

    async def many() -> list[BaseException]:
        tool = build_tool(stuck)
        calls = [call_tool(tool, {}, context, 0.2, lambda: begun.append(True)) for _ in range(free + 5)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(many())
    taken = executor._slots._value
    forever.set()

    assert [type(item) for item in results] == [ToolTimeout] * free + [ToolFailed] * 5
    assert "did not answer within 0.2 seconds" in str(results[0])
    assert "was not called: all 64 places" in str(results[-1])
    assert len(called) == len(begun) == free
    assert "left behind" in caplog.text
    assert "tool stuck" in caplog.text.partition("at work:")[2]
    assert taken == 0
    assert_slots_return(free)


def test_a_process_calls_as_many_plain_tools_at_once_as_its_setting_says(context, free, settings):
    migrate(settings)
    over = threading.Event()

    def stuck() -> None:
        """Wait."""
        over.wait()

    async def three() -> list[BaseException]:
        calls = [call_tool(build_tool(stuck), {}, context, 0.2) for _ in range(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    named = {"tool_threads": 2, "redis_url": "redis://127.0.0.1:1/0"}  # else it looks for one of an `up`
    try:
        open_process(settings.model_copy(update=named)).journal.close()
        results = asyncio.run(three())
        over.set()
        assert_slots_return(2)
    finally:
        executor.allow_threads(MAX_THREADS)

    assert [type(item) for item in results] == [ToolTimeout, ToolTimeout, ToolFailed]
    assert "all 2 places" in str(results[-1])


def slots_returned(count: int, timeout_s: float) -> int:
    """Wait until so many slots are free, for a while at most, and return how many are."""
    until_s = time.monotonic() + timeout_s
    while executor._slots._value < count and time.monotonic() < until_s:
        time.sleep(0.01)  # the thread of a tool gives its slot back at its end
    return executor._slots._value


def assert_slots_return(free: int) -> None:
    assert slots_returned(free, 10) == free


def test_a_place_that_comes_free_is_taken_by_the_call_that_waits(context, free):
    over = threading.Event()

    def busy() -> None:
        """Be busy for a while."""
        over.wait()

    def late() -> str:
        """Come late."""
        return "here"

    async def both() -> str:
        tool = build_tool(busy)
        calls = [asyncio.create_task(call_tool(tool, {}, context, 20)) for _ in range(free)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(call_tool(build_tool(late), {}, context, 20))
        await asyncio.sleep(0)
        over.set()
        await asyncio.gather(*calls)
        return await waiting

    assert asyncio.run(both()) == "here"
    assert_slots_return(free)


def test_an_async_tool_is_cancelled_at_its_timeout(call):
    cancelled = []

    async def stuck() -> None:
        """Never return."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(ToolTimeout):
        call(stuck, timeout_s=0.02)

    assert cancelled == [True]


def test_a_timeout_inside_the_tool_leaves_open_what_became_of_its_request(call):
    async def impatient() -> None:
        """Give up."""
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    with pytest.raises(ToolCutOff, match="TimeoutError"):
        call(impatient)


def test_cancelling_the_caller_leaves_the_thread_behind(context, free):
    started, forever = threading.Event(), threading.Event()

    def stuck() -> None:
        """Never return."""
        started.set()
        forever.wait()

    async def cancel() -> bool:
        task = asyncio.create_task(call_tool(build_tool(stuck), {}, context, 60))
        await asyncio.to_thread(started.wait)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancel()) is True
    assert executor._slots._value == free - 1
    forever.set()
    assert_slots_return(free)


class Probe:
    """Notes on which thread it is written out."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def __str__(self) -> str:
        self.threads.append(threading.current_thread())
        return "probe"


class Point(BaseModel):
    x: int


@dataclass
class Size:
    width: int
    point: Point


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, None),
        (True, True),
        (3, 3),
        ("text", "text"),
        ("half \ud800", "half ?"),
        ({"a": "half \ud800"}, {"a": "half ?"}),
        ({1: (2, 3)}, {"1": [2, 3]}),
        (Point(x=1), {"x": 1}),
        (Size(width=2, point=Point(x=1)), {"width": 2, "point": {"x": 1}}),
        ([Size(width=2, point=Point(x=1))], [{"width": 2, "point": {"x": 1}}]),
        ({"b", "a"}, ["a", "b"]),
        (b"\xffok", "\ufffdok"),
        (float("nan"), None),
        (2**70, str(2**70)),
        pytest.param(10**5000, "a number of 16610 bits", id="huge"),
        (ValueError("x"), "x"),
    ],
)
def test_every_result_becomes_json(value, result):
    assert to_result(value) == result


def test_a_loop_in_a_result_is_cut():
    loop: list = []
    loop.append(loop)

    assert "..." in str(to_result(loop))


@pytest.mark.parity
def test_a_result_full_of_itself_is_cut():
    loop: list = []
    loop.extend([loop, loop])

    assert "cut here" in to_result(loop)


@pytest.mark.parametrize("odd", ["half \ud800", 2**70])
def test_what_json_cannot_hold_is_replaced_as_far_as_a_result_goes(odd):
    behind = Probe()

    text = to_result([odd, *["a" * 1000] * 1000, behind])

    assert len(text.encode()) <= MAX_BYTES
    assert text.endswith("of more than that many bytes are shown]")
    assert behind.threads == []


@pytest.mark.parametrize("beside", ["text", "half \ud800", 2**70])
def test_a_thread_writes_out_what_an_async_tool_returns_where_json_alone_cannot(call, beside):
    probe = Probe()

    async def answer():
        """Tell."""
        return [beside, probe]

    assert call(answer)[1] == "probe"
    assert probe.threads
    assert threading.main_thread() not in probe.threads


@pytest.mark.parametrize("value", ["é" * MAX_BYTES, ["é" * 1000] * 1000])
def test_a_long_result_is_cut_and_says_so(value):
    text = to_result(value)

    assert len(text.encode()) <= MAX_BYTES
    assert "cut here" in text
