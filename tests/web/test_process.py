"""Large work waits for a slot on few threads, so that the others serve short requests."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from config.settings import Settings
from tests.web.conftest import eventually
from web.errors import Overloaded
from web.process import MAX_LARGE, MAX_LARGE_WAITING, WebProcess


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
