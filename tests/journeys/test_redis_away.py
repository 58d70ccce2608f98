"""Redis is away: killed, stopped, or out of memory. Runs are accepted, worked off and watched all the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.journeys.stage import SLOTS, Stage, delays_s, staged
from tests.journeys.web_server import Watching

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(120)]

WORKED_OFF_S = 12.0
"""So many starts are worked off within this, while Redis is away."""
STARTS = 50
ANSWER_S = 0.5
"""A start is answered within this, 99 times in 100, whatever Redis does."""
ADDED_S = 2.5
"""So much later, at most, a viewer sees a piece."""
BACK_S = 10.0
"""The first new run is over within this when Redis is back."""
PACE = 20
"""How many pieces a second a watched run says."""
LONGER_S = 9.0
"""So much longer than Redis is away it speaks."""
SETTLED_NS = 4_000_000_000
"""So long after its return everything is as it was."""
MORE_THREADS = 2 * SLOTS
"""Pools of threads fill up to their bounds with what they do first: the tickets of runs, requests, reads."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One deployment that lives through all faults, one after another."""
    with staged(tmp_path_factory.mktemp("away")) as new_stage:
        yield new_stage


@dataclass(frozen=True)
class Fault:
    """One way for Redis to be away, and what /health calls it."""

    name: str
    called: str
    away_s: float = 12.0

    @property
    def pieces(self) -> int:
        """What a watched run says, so that it speaks before, meanwhile and after."""
        return int((self.away_s + LONGER_S) * PACE)

    def begin(self, stage: Stage) -> None:
        if self.name == "down":
            stage.redis.kill()
        elif self.name == "frozen":
            stage.redis.freeze()
        else:
            stage.redis.say("CONFIG", "SET", "maxmemory", "1mb")

    def end(self, stage: Stage) -> None:
        if self.name == "down":
            stage.redis.start()
        elif self.name == "frozen":
            stage.redis.thaw()
        else:
            stage.redis.say("CONFIG", "SET", "maxmemory", "0")


FAULTS = [
    Fault("down", "unreachable"),
    Fault("frozen", "unreachable", away_s=30.0),  # the worst: every connection is there and says nothing
    Fault("full", "refuses_writes"),
]


@dataclass
class Seen:
    """What was measured while Redis was away; all in seconds."""

    answered: list[float]
    worked_off: float
    alone: float
    newcomer: float
    health: float
    before: list[float]
    during: list[float]
    after: list[float]
    first: float
    threads: list[dict[str, int]]

    def __str__(self) -> str:
        p99 = sorted(self.answered)[int(len(self.answered) * 0.99) - 1]
        meanwhile = statistics.median(self.during), max(self.during)
        return (
            f"start p50 {statistics.median(self.answered) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms; "
            f"{STARTS} runs worked off in {self.worked_off:.1f} s, one alone in {self.alone:.1f} s; "
            f"a newcomer saw something after {self.newcomer:.2f} s; a piece took {max(self.before):.3f} s before, "
            f"{meanwhile[0]:.2f} s (most {meanwhile[1]:.2f} s) meanwhile, {max(self.after):.3f} s after; "
            f"the first new run was over {self.first:.1f} s after; health answered in {self.health:.2f} s; "
            f"threads {self.threads}"
        )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_while_redis_is_away(stage: Stage, fault: Fault) -> None:
    stage.until_well()
    quick = stage.agent(5, 50)
    watched = stage.watch(4, fault.pieces, PACE)
    threads = [stage.threads()]

    fault.begin(stage)
    began_ns = time.monotonic_ns()
    answers = [stage.web.ask("/v1/runs", {"agent": quick, "input": "Hello"}) for _ in range(STARTS)]
    worked_off_s = stage.until_ended([str(body["run_id"]) for _, _, body, _ in answers], WORKED_OFF_S * 2)
    asked_s = time.monotonic()
    watched.append(Watching(stage.web, watched[0].run_id))
    newcomer_s = time.monotonic() - asked_s
    _, _, health, health_s = stage.web.ask("/health")
    alone_s = stage.until_ended([stage.begin(quick)], WORKED_OFF_S)
    threads.append(stage.threads())
    time.sleep(max(0.0, fault.away_s - (time.monotonic_ns() - began_ns) / 1e9))  # its length is the scenario
    fault.end(stage)
    back_ns = time.monotonic_ns()
    first_s = stage.until_ended([stage.begin(quick)], 60)
    for watching in watched:
        watching.to_the_end()
    stage.until_well()
    threads.append(stage.threads())

    seen = Seen(
        answered=[took_s for _, _, _, took_s in answers],
        worked_off=worked_off_s,
        alone=alone_s,
        newcomer=newcomer_s,
        health=health_s,
        first=first_s,
        threads=threads,
        before=delays_s(watched[:4], 0, began_ns),
        during=delays_s(watched[:4], began_ns, back_ns),
        after=delays_s(watched[:4], back_ns + SETTLED_NS),
    )
    print(f"\nRedis {fault.name} for {fault.away_s:.0f} s: {seen}")
    for watching in watched:
        stage.assert_well_seen(watching, fault.pieces)
    stage.assert_calm()
    assert {status for status, *_ in answers} == {202}
    assert sorted(seen.answered)[-2] <= ANSWER_S
    assert worked_off_s < WORKED_OFF_S, "while Redis was away, not after"
    assert newcomer_s <= ADDED_S
    assert (health["status"], health["redis"]) == ("degraded", fault.called)
    assert health_s < ADDED_S
    assert max(seen.during) <= ADDED_S
    assert max(seen.after) <= 1.0, "live again"
    assert first_s <= BACK_S
    for name, count in threads[0].items():
        assert max(each[name] for each in threads) <= count + MORE_THREADS, threads
