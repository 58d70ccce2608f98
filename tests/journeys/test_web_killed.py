"""kill -9 of a web process, with a stream open and requests half answered: another one takes over both."""

from __future__ import annotations

import http.client
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from sqlalchemy import select

from config.database.tables import runs
from tests.app_harness import AppHarness
from tests.journeys.neighbour import neighbour
from tests.journeys.web_server import Watching, Web
from tests.model_server import Turn
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

WORDS = [f"word{number} " for number in range(60)]
STARTS = 40


class MortalWeb(Web):
    """A gunicorn that can be killed with all its processes."""

    def __init__(self, harness: AppHarness, name: str) -> None:
        port = free_port()
        super().__init__(harness.settings.model_copy(update={"port": port}))
        self.log = harness.settings.state / f"{name}.log"

    def kill(self) -> None:
        """End it as a power cut would."""
        master = psutil.Process(self.process.pid)
        for process in [*master.children(recursive=True), master]:
            process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def __enter__(self) -> MortalWeb:
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            super().__exit__()


@contextmanager
def two_webs(harness: AppHarness) -> Iterator[tuple[MortalWeb, MortalWeb]]:
    with MortalWeb(harness, "first") as first, MortalWeb(harness, "second") as second:
        yield first, second


def test_a_stream_continues_at_another_web_process(brisk_harness: AppHarness) -> None:
    brisk_harness.agent()
    brisk_harness.model.respond = lambda body: Turn(text=WORDS, pace=20)

    with two_webs(brisk_harness) as (first, second), neighbour(brisk_harness):
        status, _, accepted, _ = first.ask("/v1/runs", {"agent": "tester", "input": "Hello"})
        watching = Watching(first, accepted["run_id"])
        watching.until(lambda: len(watching.pieces) >= 5)
        watching.move(second)
        first.kill()
        seen = watching.to_the_end()
        whole = second.events(accepted["run_id"])

    assert status == 202
    assert watching.connects > 1
    assert seen == whole
    assert "".join(content for content, _ in watching.pieces) == seen[-1]["output"] == "".join(WORDS)


def test_a_start_that_was_never_answered_is_the_same_run_when_it_is_sent_again(brisk_harness: AppHarness) -> None:
    brisk_harness.agent()
    brisk_harness.model.respond = lambda body: Turn(text="Here.")
    answered: dict[str, str] = {}
    unanswered: list[str] = []
    begun = threading.Barrier(STARTS + 1)

    def start(web: Web, key: str) -> str:
        body = {"agent": "tester", "input": f"Hello {key}"}
        status, _, run, _ = web.ask("/v1/runs", body, Idempotency_Key=key)
        assert status == 202, run
        return str(run["run_id"])

    def try_to_start(key: str) -> None:
        begun.wait(20)
        try:
            answered[key] = start(first, key)
        except (OSError, http.client.HTTPException):
            unanswered.append(key)

    with two_webs(brisk_harness) as (first, second):
        threads = [threading.Thread(target=try_to_start, args=(f"key-{n}",)) for n in range(STARTS)]
        for thread in threads:
            thread.start()
        begun.wait(20)
        until_some_are_accepted(brisk_harness)
        first.kill()
        for thread in threads:
            thread.join(40)
        again = {key: start(second, key) for key in [*answered, *unanswered]}
        with neighbour(brisk_harness):
            ends = Counter(brisk_harness.runner.handle(run_id).result(60).status for run_id in again.values())

    print(f"{len(answered)} starts were answered before the kill, {len(unanswered)} were not")
    assert {key: again[key] for key in answered} == answered, "what was answered is there"
    assert len(set(again.values())) == STARTS
    assert len(accepted_runs(brisk_harness)) == STARTS, "a key is a run"
    assert ends == {"succeeded": STARTS}


def accepted_runs(harness: AppHarness) -> list[str]:
    with harness.runner.journal.database.read() as connection:
        return list(connection.execute(select(runs.c.id)).scalars())


def until_some_are_accepted(harness: AppHarness) -> None:
    while len(accepted_runs(harness)) < STARTS // 8:
        pass  # as soon as can be: the rest is to be under way
