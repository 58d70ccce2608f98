"""A sample of the sweep: runs of reference, killed for real wherever chance says, end as if nothing had happened."""

from __future__ import annotations

import json
import os
import random

import pytest

from config.folders import ROOT
from tests.conftest import need
from tests.processes import run_python
from tests.reference_runs import REFERENCE_RUNS

SCENARIOS = 7
"""Runs of reference on each route, drawn anew each time; ``./callboard soak --sweep`` plays all of them."""
pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]


def sweep(*flags: str) -> list[dict]:
    """Sweep in a process of its own, which forks and so has no thread; return its rows."""
    seed = str(random.randrange(1_000_000))
    words = ("-P", "-m", "tests.soak.sweep", "--json", "--seed", seed, *flags)
    ran = run_python(*words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    print(ran.stderr)  # the seed, and what differed
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)["rows"]


@pytest.mark.parametrize("route", ["sync", "async"])
def test_a_kill_anywhere_changes_nothing_on_either_route(route: str) -> None:
    drawn = random.sample(list(REFERENCE_RUNS), SCENARIOS)

    rows = sweep("--sample", "12", "--route", route, "--database", "sqlite", *(f"--scenario={name}" for name in drawn))

    assert [row for row in rows if row["violations"]] == []
    assert [row["scenario"] for row in rows] == drawn
    assert sum(row["killed"] for row in rows) >= 9  # calls made at once may pass fewer places another time


@pytest.mark.postgres
@pytest.mark.parametrize("scenario", ["parallel tools", "approved call"])
def test_a_kill_anywhere_changes_nothing_on_postgres(scenario: str) -> None:
    from tests.backends import postgres_tool

    need(postgres_tool("initdb"), "Postgres (initdb)")

    rows = sweep("--sample", "5", "--route", "sync", "--database", "postgres", "--scenario", scenario)

    assert [row for row in rows if row["violations"]] == []
    assert sum(row["killed"] for row in rows) >= 4
