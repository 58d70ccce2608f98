"""Priorities with real workers on a real Redis. Pollers look once in two minutes, so wake-ups alone begin the runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from sqlalchemy import select

from agents.handle import RunHandle
from bus.journal.clients import CONTROLS
from config.database.tables import runs
from config.identity.principal import Principal
from tests.app_harness import AppHarness
from tests.fleet import Worker
from tests.journeys.neighbour import read_until_it_speaks
from tests.model_server import Turn

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

STALLS = Turn(text=["one ", "two"], stall_after=2)


@pytest.fixture
def harness(open_harness: Callable[..., AppHarness]) -> AppHarness:
    opened = open_harness(lease_s=15.0, beat_s=5.0, reap_s=120.0, slots=1)
    opened.agent()
    opened.model.respond = lambda body: STALLS if "First" in str(body["messages"]) else Turn(text="done")
    return opened


def in_order(harness: AppHarness, handles: list[RunHandle]) -> list[str]:
    """Return the ids of these runs in the order in which they began, once they have all ended."""
    ends = [handle.result(60).status for handle in handles]
    assert ends == ["succeeded"] * len(handles)
    ids = [handle.run_id for handle in handles]
    with harness.runner.journal.database.read() as connection:
        return list(
            connection.execute(select(runs.c.id).where(runs.c.id.in_(ids)).order_by(runs.c.started_ms)).scalars()
        )


def test_of_twenty_runs_that_wait_for_one_slot_a_high_one_begins_next_and_a_low_one_last(harness: AppHarness) -> None:
    with Worker(harness.settings, log=harness.settings.state / "worker.log"):
        first = harness.run("First", detached=True)
        read_until_it_speaks(first)
        low = harness.run("low", detached=True, priority="low")
        normal = [harness.run(f"normal {number}", detached=True) for number in range(20)]
        high = harness.run("high", detached=True, priority="high")
        normal[10].control(CONTROLS["set"], data={"priority": "high"})
        normal[5].control(CONTROLS["set"], data={"priority": "low"})

        harness.model.resume()
        order = in_order(harness, [first, low, *normal, high])

    assert order[:3] == [first.run_id, normal[10].run_id, high.run_id]
    assert {*order[-2:]} == {low.run_id, normal[5].run_id}


def test_the_high_runs_of_a_tenant_go_before_its_own_runs_and_before_none_of_another_tenant(
    harness: AppHarness,
) -> None:
    acme, other = Principal(tenant="acme", id="ann"), Principal(tenant="other", id="bob")
    with Worker(harness.settings, log=harness.settings.state / "worker.log"):
        first = harness.run("First", detached=True)
        read_until_it_speaks(first)
        handles = []
        for number in range(4):
            priority = "high" if number >= 2 else "low"
            handles.append(harness.run(f"acme {number}", detached=True, principal=acme, priority=priority))
            handles.append(harness.run(f"other {number}", detached=True, principal=other))

        harness.model.resume()
        order = in_order(harness, handles)

    tenant_of = {handle.run_id: ("acme", "other")[place % 2] for place, handle in enumerate(handles)}
    assert [tenant_of[run_id] for run_id in order] == ["acme", "other"] * 4
    of_acme = [run_id for run_id in order if tenant_of[run_id] == "acme"]
    assert {*of_acme[:2]} == {handle.run_id for handle in handles[4::2]}


def test_the_runs_of_two_workers_all_begin_by_wake_ups_whichever_gave_way(harness: AppHarness) -> None:
    rng = random.Random(7)
    with ExitStack() as workers:
        for name in ("one", "two"):
            workers.enter_context(Worker(harness.settings, log=harness.settings.state / f"{name}.log"))
        priorities = [rng.choice(("low", "normal", "high")) for _ in range(30)]
        handles = [harness.run("Hello", detached=True, priority=priority) for priority in priorities]

        order = in_order(harness, handles)

    assert len(order) == 30
