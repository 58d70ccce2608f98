"""Whose sessions are whose, when they are opened and closed, and what a process leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import orjson
import psutil
import pytest

from agents.errors import McpServerDown
from agents.tools.mcp import pool as pools
from agents.tools.mcp.pool import McpPool, close_pools, mcp_pool
from agents.tools.mcp.server_states import McpServerState, McpState
from config.definitions.mcp.server import McpServerDefinition
from config.errors import ToolCutOff
from tests.agents.tools.mcp.conftest import FAKE, Define, Run, said
from tests.agents.tools.mcp.connection.test_http import SDK
from tests.processes import ROOT

pytestmark = [pytest.mark.parity, pytest.mark.timeout(60)]


async def pid_of(pool: McpPool, server: McpServerDefinition, tenant: str = "t") -> int:
    return int(orjson.loads(said(await pool.call(tenant, server, "environment", {})))["pid"])


def test_callers_at_once_open_one_session(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> set[int]:
        return set(await asyncio.gather(*(pid_of(pool, define()) for _ in range(50))))

    assert len(run(use)) == 1


def test_tenants_variables_and_arguments_have_sessions_of_their_own(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> list[int]:
        mine, other = define(), define(env={"A": "b"})
        sessions = [(mine, "t"), (mine, "u"), (other, "t"), (define("word"), "t")]
        return [await pid_of(pool, server, tenant) for server, tenant in sessions]

    assert len(set(run(use))) == 4


def test_a_changed_secret_opens_another_session(run: Run, define: Define, monkeypatch: pytest.MonkeyPatch) -> None:
    server = define(secrets={"TOKEN": "env:TOKEN_OF_THE_SHOP"})

    async def use(pool: McpPool) -> list[int]:
        pids = []
        for value in ("first-token", "second-token"):
            monkeypatch.setenv("TOKEN_OF_THE_SHOP", value)
            pids.append(await pid_of(pool, server))
        return pids

    assert len(set(run(use))) == 2


@pytest.mark.parametrize("kind", ["fake", "sdk"])
def test_two_hundred_calls_at_once_are_all_answered(run: Run, define: Define, kind: str) -> None:
    server = define() if kind == "fake" else define(args=(str(SDK), "stdio"))
    name, arguments = ("echo", {"say": "x" * 50_000}) if kind == "fake" else ("add", {"a": 1, "b": 2})

    async def use(pool: McpPool) -> list[Any]:
        return await asyncio.gather(*(pool.call("t", server, name, arguments) for _ in range(200)))

    assert len(run(use)) == 200


def test_a_caller_that_leaves_takes_the_session_from_nobody(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> str:
        first = asyncio.create_task(pool.call("t", define(), "echo", {}))
        second = asyncio.create_task(pool.call("t", define(), "echo", {"say": "mine"}))
        await asyncio.sleep(0)
        first.cancel()
        return said(await second)

    assert run(use) == "mine"


def test_a_session_without_calls_is_closed_and_opened_again(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> list[int]:
        server = define(idle_s=0.2)
        first = await pid_of(pool, server)
        await gone(first)
        assert pool.states() == {"fake": McpServerState(state=McpState.IDLE)}
        return [first, await pid_of(pool, server)]

    first, second = run(use)
    assert first != second


async def gone(pid: int) -> None:
    until_s = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < until_s:
        await asyncio.sleep(0.02)
    assert not psutil.pid_exists(pid)


def test_a_server_that_fails_again_and_again_is_started_ever_less_often(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> str:
        server = define("exit")
        for _ in range(2):
            with pytest.raises(McpServerDown, match="status 4"):
                await pool.call("t", server, "echo", {})
        began_s = time.monotonic()
        with pytest.raises(McpServerDown, match=r"status 4.* tried again in 0\.\d seconds") as caught:
            await pool.call("t", server, "echo", {})
        state = pool.states()["fake"]
        assert (state.state, 0 < state.next_try_s <= 0.5) == (McpState.BACKING_OFF, True)
        assert "a package is missing" in state.reason
        assert time.monotonic() - began_s < 0.05
        await asyncio.sleep(0.6)
        with pytest.raises(McpServerDown, match="The call was not made"):
            await pool.call("t", server, "echo", {})
        return str(caught.value)

    assert "the call was not made" in run(use)


def test_a_server_that_ends_in_each_of_its_calls_is_started_ever_less_often(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> None:
        server = define()
        for _ in range(2):
            await pool.listed_now("t", server, "crash")
            with pytest.raises(ToolCutOff, match="status 3"):
                await pool.call("t", server, "crash", {})
        with pytest.raises(McpServerDown, match=r"status 3.* tried again in 0\.\d seconds"):
            await pool.listed_now("t", server, "crash")
        assert pool.states()["fake"].state is McpState.BACKING_OFF
        await asyncio.sleep(0.6)
        assert said(await pool.call("t", server, "echo", {"say": "again"})) == "again"
        assert pool.states()["fake"].state is McpState.READY

    run(use)


def test_beyond_the_limit_the_session_that_is_idle_longest_is_closed(
    run: Run, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MAX_SESSIONS", 2)

    async def use(pool: McpPool) -> None:
        first, second = [await pid_of(pool, define(), tenant) for tenant in "ab"]
        await pid_of(pool, define(), "c")
        await gone(first)
        assert psutil.pid_exists(second)

    run(use)


def test_at_the_end_of_the_pool_calls_are_cut_off(run: Run, define: Define) -> None:
    async def use(pool: McpPool) -> Any:
        hanging = asyncio.create_task(pool.call("t", define(), "hang", {}))
        await pid_of(pool, define())
        await pool.close()
        return (await asyncio.gather(hanging, return_exceptions=True))[0]

    assert isinstance(run(use), ToolCutOff)


def test_the_pools_of_other_threads_are_closed(define: Define) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def use() -> int:
        return await pid_of(mcp_pool(), define())

    pid = asyncio.run_coroutine_threadsafe(use(), loop).result(20)
    close_pools()

    assert not psutil.pid_exists(pid)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_killed_process_leaves_no_server_behind(define: Define) -> None:
    code = f"""
import asyncio
from agents.tools.mcp.pool import McpPool
from config.definitions.mcp.server import McpServerDefinition
async def use():
    pool = McpPool()
    words = ("-I", {str(FAKE)!r})
    server = McpServerDefinition(name="fake", command={sys.executable!r}, args=words, file={str(FAKE)!r})
    for name in ("environment", "spawn"):
        print((await pool.call("t", server, name, {{}})).content[0].text, flush=True)
    await pool.call("t", server, "hang", {{}})
asyncio.run(use())
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(orjson.loads(process.stdout.readline())["pid"]), int(process.stdout.readline())]
        process.send_signal(signal.SIGKILL)

    until_s = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert not any(map(psutil.pid_exists, pids))


def test_a_forked_child_opens_its_own_and_leaves_the_parents_alone(run: Run, define: Define) -> None:
    server = define()

    async def use(pool: McpPool) -> tuple[int, int, int]:
        first = await pid_of(mcp_pool(), server)
        child_pid = await asyncio.to_thread(in_child, lambda: asyncio.run(own_pid(server)))
        second = await pid_of(mcp_pool(), server)
        await mcp_pool().close()
        return first, child_pid, second

    first, in_the_child, second = run(use)
    assert first == second != in_the_child
    assert in_the_child > 0


REACHED = 100
"""A child that was killed computed 0."""


def test_a_child_begins_without_the_parents_pools_and_their_lock(run: Run) -> None:
    def left() -> int:
        signal.alarm(20)  # ends a child that waits for a lock whose holder is in the parent
        pools.close_pools()
        return REACHED + len(pools._pools)

    async def use(_: McpPool) -> tuple[int, int]:
        mcp_pool()
        with pools._lock:
            in_the_child = in_child(left)
        return len(pools._pools), in_the_child

    in_the_parent, in_the_child = run(use)
    assert (in_the_parent > 0, in_the_child) == (True, REACHED)


async def own_pid(server: McpServerDefinition) -> int:
    try:
        return await pid_of(mcp_pool(), server)
    finally:
        await mcp_pool().close()


def in_child(compute: Callable[[], int]) -> int:
    """Return what a forked child computed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(compute()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return int(pipe.read() or 0)
