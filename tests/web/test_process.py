"""Large work and waits for runs hold few threads, so that the others serve short requests."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from config.settings import Settings
from tests.web.conftest import eventually, opened
from web.errors import Overloaded
from web.process import MAX_LARGE, MAX_LARGE_WAITING, MAX_WAITING, WebProcess


def test_requests_beyond_those_that_wait_for_large_work_are_refused_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.process.LARGE_WAIT_S", 60.0)
    process, done = WebProcess(settings), threading.Semaphore(0)

    def work() -> None:
        with process.large_work():
            done.release()

    with ExitStack() as slots:
        for _ in range(MAX_LARGE):
            slots.enter_context(process.large_work())
        waiting = [threading.Thread(target=work) for _ in range(MAX_LARGE_WAITING)]
        for thread in waiting:
            thread.start()
        eventually(lambda: process._large_admitted._value == 0)

        with pytest.raises(Overloaded), process.large_work():
            pass
        assert all(thread.is_alive() for thread in waiting)

    for thread in waiting:
        thread.join(20)
        assert done.acquire(blocking=False)
    work()


@pytest.mark.parametrize(("auth", "share"), [("none", MAX_WAITING), ("required", MAX_WAITING // 2)])
def test_one_tenant_takes_half_of_the_waits_where_there_are_others(settings: Settings, auth: str, share: int) -> None:
    with opened(settings.model_copy(update={"auth": auth})) as runner, ThreadPoolExecutor(MAX_WAITING) as threads:
        process, is_over, begun = WebProcess(runner.settings, runner), asyncio.Event(), threading.Semaphore(0)

        async def work() -> bool:
            begun.release()
            return await is_over.wait()

        waits = [threads.submit(process.wait, "acme", 60, work) for _ in range(share)]
        for _ in waits:
            assert begun.acquire(timeout=20)
        with pytest.raises(Overloaded):
            process.wait("acme", 60, work)
        waits += [threads.submit(process.wait, "other", 60, work) for _ in range(MAX_WAITING - share)]
        for _ in waits[share:]:
            assert begun.acquire(timeout=20)
        with pytest.raises(Overloaded):
            process.wait("third", 60, work)
        process.journal.loop.run(_set(is_over))

        assert all(wait.result(20) for wait in waits)
        process.close()


async def _set(event: asyncio.Event) -> None:
    event.set()
