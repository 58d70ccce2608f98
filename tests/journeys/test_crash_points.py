"""A sample of the sweep: runs of reference, killed for real wherever chance says, end as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
from itertools import product

import pytest

from config.folders import ROOT
from tests import failure_model
from tests.conftest import need
from tests.processes import run_python
from tests.reference_runs import REFERENCE_RUNS
from tests.reference_workflows import REFERENCE_WORKFLOWS

ALONE = [name for name, run in REFERENCE_RUNS.items() if run.is_alone]
IN_THREADS = [name for name in REFERENCE_RUNS if name not in ALONE]
"""Runs in which a person acts, or that others follow."""
ROUTES = ("sync", "async")
ON_POSTGRES = ["parallel tools", "approved call", "delegation", "rollback"]
WORKFLOWS = [f"--scenario={name}" for name in REFERENCE_WORKFLOWS]
pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(300)]


def sweep(*flags: str) -> list[dict]:
    """Sweep in a process of its own, which forks and so has no thread; return its rows.

    It imports LiteLLM, which is a third of its time: a process sweeps both routes, or both runs.
    """
    seed = str(random.randrange(1_000_000))
    words = ("-P", "-m", "tests.soak.sweep", "--json", "--seed", seed, *flags)
    ran = run_python(*words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    print(ran.stderr)  # the seed, and what differed
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)["rows"]


def test_a_kill_anywhere_changes_nothing_on_either_route() -> None:
    drawn = [*random.sample(ALONE, 5), *random.sample(IN_THREADS, 2)]  # ``./callboard soak --sweep`` plays all of them
    chosen = (*(f"--route={route}" for route in ROUTES), *(f"--scenario={name}" for name in drawn))

    rows = sweep("--sample", "24", "--database", "sqlite", *chosen)

    assert [row for row in rows if row["violations"]] == []
    assert [place for row in rows for place in row["passed"] if not failure_model.is_described(tuple(place))] == []
    played = [(name, route) for name, route in product(drawn, ROUTES) if route in REFERENCE_RUNS[name].routes]
    assert [(row["scenario"], row["route"]) for row in rows] == played
    assert sum(row["killed"] for row in rows) >= 18  # calls made at once may pass fewer places another time


def test_a_kill_in_rows_of_a_workflow_changes_nothing_on_either_route() -> None:
    rows = sweep("--each-row", "--sample", "40", "--database", "sqlite", *WORKFLOWS)

    assert [row for row in rows if row["violations"]] == []
    assert [place for row in rows for place in row["passed"] if not failure_model.is_described(tuple(place))] == []
    assert sum(row["killed"] for row in rows) >= 30


@pytest.mark.postgres
def test_a_kill_in_rows_of_a_workflow_changes_nothing_on_postgres() -> None:
    from tests.backends import postgres_tool

    need(postgres_tool("initdb"), "Postgres (initdb)")

    rows = sweep("--each-row", "--sample", "30", "--route", "async", "--database", "postgres", *WORKFLOWS)

    assert [row for row in rows if row["violations"]] == []
    assert sum(row["killed"] for row in rows) >= 20


@pytest.mark.postgres
def test_a_kill_anywhere_changes_nothing_on_postgres() -> None:
    from tests.backends import postgres_tool

    need(postgres_tool("initdb"), "Postgres (initdb)")
    chosen = [f"--scenario={name}" for name in ON_POSTGRES]

    rows = sweep("--sample", "10", "--route", "sync", "--database", "postgres", *chosen)

    assert [row for row in rows if row["violations"]] == []
    assert [row["scenario"] for row in rows] == ON_POSTGRES
    assert sum(row["killed"] for row in rows) >= 8
