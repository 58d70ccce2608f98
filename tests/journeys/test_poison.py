"""Garbage on the queue is dropped, counted, never unpickled, never logged; the worker lives and takes the next run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import redis

from bus.keys import Keys
from config.settings import Settings
from tests.app_harness import AppHarness
from tests.bus import garbage
from tests.fleet import Worker
from tests.model_server import Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_a_worker_outlives_whatever_lies_on_its_queue(
    pool: str, fleet_settings: Settings, fleet_harness: AppHarness, tmp_path: Path
) -> None:
    fleet_harness.agent()
    queue = Queue(fleet_settings)
    fleet_harness.model.script([Turn(text="I am still here.")])
    log = fleet_settings.state / f"poison-{pool}.log"
    items = garbage.unreadable() | garbage.huge() | garbage.traps(tmp_path / "sprung") | garbage.asking_for_more()
    many = list(garbage.not_ours().values()) * 10  # more than the worker has slots: none may stay taken

    with Worker(fleet_settings, "--pool", pool, "--concurrency", "2", log=log) as worker:
        queue.put([*items.values(), *many])
        end = fleet_harness.run("Are you well?", detached=True).result(60)
        queue.wait_until_empty()

        assert (end.status, end.output) == ("succeeded", "I am still here.")
        assert worker.process.poll() is None, "the same process"

    assert not (tmp_path / "sprung").exists(), "something was unpickled"
    text = log.read_text()
    assert f"dropped={(len(items) - len(garbage.asking_for_more()) + len(many)) // 100 * 100}\n" in text
    assert "Traceback" not in text
    assert "chord_unlock" not in text
    assert "os.system" not in text


def test_a_worker_waits_for_a_redis_that_answers_with_errors(
    fleet_settings: Settings, fleet_harness: AppHarness
) -> None:
    fleet_harness.agent()
    fleet_harness.model.script([Turn(text="Mended.")])
    queue = Queue(fleet_settings)
    log = fleet_settings.state / "errors.log"

    with Worker(fleet_settings, log=log) as worker:
        queue.spoil()
        until = time.monotonic() + 30
        while "ResponseError" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.05)  # another process's log
        queue.mend()

        assert fleet_harness.run("Are you well?", detached=True).result(60).output == "Mended."
        assert worker.process.poll() is None, "the same process"
    assert "ResponseError" in log.read_text()


class Queue:
    """The list in Redis that Celery pops from."""

    def __init__(self, settings: Settings) -> None:
        self._client = redis.Redis.from_url(str(settings.redis_url))
        self._key = f"{Keys(settings.deployment).prefix}{settings.queue}"

    def put(self, items: list[bytes]) -> None:
        """Put items where the next ones to be popped are."""
        for item in items:
            self._client.rpush(self._key, item)

    def spoil(self) -> None:
        """Have Redis answer every command on the list with an error."""
        self._client.set(self._key, "no list")

    def mend(self) -> None:
        """Make room for a list again."""
        self._client.delete(self._key)

    def wait_until_empty(self) -> None:
        """Return when a worker popped the last item."""
        until = time.monotonic() + 30
        while self._client.llen(self._key):
            assert time.monotonic() < until, "no worker takes what is on the queue"
            time.sleep(0.05)  # Redis has no event for an empty list
