"""Redis restarts, with its data or empty, is emptied, or cuts its listeners off: nothing accepted is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.journeys.stage import SLOTS, Stage, delays_s, staged
from web.doctor.servers import check_redis

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(120)]

PIECES, PACE = 120, 20
CUT_OFF_PIECES = 200
WAITING = 5
BACK_S = 10.0
QUEUED_S = 15.0
ADDED_S = 2.5
CUT_EVERY_S = 0.3


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One deployment that lives through all faults, one after another."""
    with staged(tmp_path_factory.mktemp("lost")) as new_stage:
        yield new_stage


def restart(stage: Stage) -> None:
    stage.redis.kill()
    stage.redis.start()


def restart_empty(stage: Stage) -> None:
    stage.redis.kill()
    stage.redis.forget()
    stage.redis.start()


def flush(stage: Stage) -> None:
    stage.redis.say("FLUSHALL")


@pytest.mark.parametrize("fault", [restart, restart_empty, flush], ids=lambda fault: fault.__name__)
def test_runs_that_stream_and_runs_that_wait_all_end(stage: Stage, fault: Callable[[Stage], None]) -> None:
    stage.until_well()
    quick = stage.agent(5, 50)
    watched = stage.watch(SLOTS, PIECES, PACE)
    waiting = [stage.begin(quick) for _ in range(WAITING)]
    stage.until(lambda: stage.redis.say("LLEN", queue_of(stage)) == WAITING, 10, "their wake-ups lie in the queue")

    fault(stage)
    back_ns = time.monotonic_ns()
    for watching in watched:
        watching.to_the_end()
    ended_s = (time.monotonic_ns() - back_ns) / 1e9
    new_s = stage.until_ended([stage.begin(quick)], 30)
    worked_off_s = stage.until_ended(waiting, QUEUED_S)

    print(
        f"\n{fault.__name__}: {SLOTS} streams continued and ended {ended_s:.1f} s after, {WAITING} waiting runs were "
        f"over {worked_off_s:.1f} s after a place was free, a new run in {new_s:.1f} s; a piece took at most "
        f"{max(delays_s(watched, back_ns)):.2f} s"
    )
    for watching in watched:
        stage.assert_well_seen(watching, PIECES)
    stage.assert_calm()
    assert new_s <= BACK_S
    assert max(delays_s(watched, back_ns)) <= ADDED_S
    stage.until(lambda: not stage.redis.say("LLEN", queue_of(stage)), 10, "the queue is empty")


def queue_of(stage: Stage) -> str:
    return f"callboard:{stage.settings.deployment}:{stage.settings.queue}"


def test_listeners_that_are_cut_off_again_and_again_miss_nothing(stage: Stage) -> None:
    stage.until_well()
    (watching,) = stage.watch(1, CUT_OFF_PIECES, 30)
    began_ns, is_over, cut = time.monotonic_ns(), threading.Event(), []

    def cut_off() -> None:
        with stage.redis.client() as client:
            while not is_over.wait(CUT_EVERY_S):
                cut.append(client.execute_command("CLIENT", "KILL", "TYPE", "pubsub"))

    cutting = threading.Thread(target=cut_off)
    cutting.start()
    watching.to_the_end()
    is_over.set()
    cutting.join()

    found_s = sorted(delays_s([watching], began_ns))
    print(
        f"\ncut off {sum(cut)} times in {len(cut)} tries: a piece took {found_s[len(found_s) // 2]:.3f} s, "
        f"at most {found_s[-1]:.2f} s"
    )
    stage.assert_well_seen(watching, CUT_OFF_PIECES)
    stage.assert_calm()
    assert sum(cut) > 10
    assert found_s[-1] <= ADDED_S


def test_a_policy_that_becomes_dangerous_while_running_is_found_by_the_doctor(stage: Stage) -> None:
    stage.until_well()
    stage.redis.say("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        by_verdict = dict(check_redis(stage.settings))
        run_id = stage.begin(stage.agent(5, 50))
        stage.until_ended([run_id], 20)
    finally:
        stage.redis.say("CONFIG", "SET", "maxmemory-policy", "noeviction")

    assert "config set maxmemory-policy noeviction" in by_verdict["fail"]
    assert "maxmemory-policy noeviction" in dict(check_redis(stage.settings))["ok"]
