"""One loop a process, on its own thread; waiting on it there is refused, and a fork starts afresh."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings

import pytest

from bus.errors import LOOP_BLOCKED
from bus.journal.errors import StaleOwner
from bus.loop import ProcessLoop, process_loop
from config.folders import ROOT
from config.logs import acting_for
from tests.raising import raises


async def where() -> int:
    return threading.get_ident()


def test_a_coroutine_runs_on_the_loops_thread_and_its_result_comes_back(loop: ProcessLoop):
    assert loop.run(where()) != threading.get_ident()
    assert not loop.is_loop_thread()


def test_work_on_the_loop_has_nothing_of_its_callers_context(loop: ProcessLoop):
    seen: list[object] = []
    is_called = threading.Event()

    async def look() -> None:
        seen.append(acting_for.get())

    def look_too() -> None:
        seen.append(acting_for.get())
        is_called.set()

    token = acting_for.set(("acme", "ann"))
    loop.run(look())
    loop.call_soon(look_too)
    acting_for.reset(token)

    assert is_called.wait(10)
    assert seen == [None, None]


def test_an_error_comes_back_to_the_caller(loop: ProcessLoop):
    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        loop.run(fail())


def test_waiting_on_the_loops_own_thread_is_refused(loop: ProcessLoop):
    async def wait_here() -> None:
        loop.run(where())

    with raises(LOOP_BLOCKED):
        loop.run(wait_here())


def test_writes_take_turns_and_reads_do_not_wait_for_them(loop: ProcessLoop):
    order: list[str] = []
    is_read, may_write = threading.Event(), threading.Event()

    def write(name: str) -> None:
        may_write.wait(10)
        order.append(name)

    async def play() -> None:
        writes = [asyncio.ensure_future(loop.write(write, name)) for name in "abc"]
        await loop.read(is_read.set)
        may_write.set()
        await asyncio.gather(*writes)

    loop.run(play())

    assert is_read.is_set()
    assert order == ["a", "b", "c"]


def test_widened_writes_run_at_once():
    wide = ProcessLoop()
    wide.widen_writes(2)
    both = threading.Barrier(2)

    async def play() -> None:
        await asyncio.gather(wide.write(both.wait, 10), wide.write(both.wait, 10))

    wide.run(play(), 20)

    assert both.n_waiting == 0


def test_the_process_has_one_loop():
    loops: list[ProcessLoop] = []
    threads = [threading.Thread(target=lambda: loops.append(process_loop())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(map(id, loops))) == 1


@pytest.mark.parity
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_child_gets_a_loop_of_its_own():
    parents = process_loop()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what this is about
        child = os.fork()
    if child == 0:
        answer = b"bad"
        try:
            own = process_loop()
            if own is not parents and own.run(where(), 10):
                answer = b"own"
        finally:
            os.write(writing, answer)
            os._exit(0)

    os.close(writing)
    answer = os.read(reading, 3)
    os.close(reading)
    os.waitpid(child, 0)

    assert answer == b"own"


@pytest.mark.parity
def test_an_expected_error_that_is_not_awaited_is_one_line(loop: ProcessLoop, caplog: pytest.LogCaptureFixture):
    async def refuse() -> None:
        raise StaleOwner("run_1", 3)

    async def leave_alone() -> None:
        asyncio.get_running_loop().create_task(refuse())
        await asyncio.sleep(0.01)
        gc.collect()
        await asyncio.sleep(0.01)

    loop.run(leave_alone(), 20)

    (record,) = [entry for entry in caplog.records if entry.name == "bus.loop"]
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert "\n" not in record.getMessage()
    assert StaleOwner.code in record.getMessage()
    assert not [entry for entry in caplog.records if entry.name == "asyncio"]


@pytest.mark.parity
def test_an_unexpected_error_that_is_not_awaited_keeps_its_traceback(
    loop: ProcessLoop, caplog: pytest.LogCaptureFixture
):
    async def stumble() -> None:
        raise ValueError("a mistake")

    async def leave_alone() -> None:
        asyncio.get_running_loop().create_task(stumble())
        await asyncio.sleep(0.01)
        gc.collect()
        await asyncio.sleep(0.01)

    loop.run(leave_alone(), 20)

    assert [record.exc_info is not None for record in caplog.records if record.name == "asyncio"] == [True]


@pytest.mark.parity
def test_a_stopped_loop_says_nothing_when_the_process_ends() -> None:
    """Tasks that hand work to threads while the interpreter ends would say "cannot schedule new futures"."""
    code = """if 1:
        import asyncio, atexit, sys, time
        from bus.loop import process_loop, stop_process_loop
        loop = process_loop()
        async def busy():
            while True:
                await loop.read(lambda: None)
        for _ in range(20):
            loop.loop.call_soon_threadsafe(lambda: loop.loop.create_task(busy()))
        loop.run(asyncio.sleep(0.05))
        atexit.register(time.sleep, 0.5)  # as observers that write their last lines
        if "stop" in sys.argv:
            stop_process_loop()
    """
    stderrs = [
        subprocess.run(
            [sys.executable, "-P", "-c", code, *words],
            env={"PYTHONPATH": str(ROOT)},  # without the packages of a developer, of whose `config` ours would warn
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for words in (["stop"], [])
    ]

    assert stderrs[0] == ""
    assert "cannot schedule new futures" in stderrs[1]  # what stopping prevents
