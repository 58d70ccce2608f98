"""Servers of MCP that are killed or attack: `./callboard bench --only mcp_faults` meets its bars, in small."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bench.hostile_servers import CASES
from tests.bench.report import Report
from tests.processes import ROOT

pytestmark = [pytest.mark.parity, pytest.mark.slow, pytest.mark.timeout(180)]


def test_killed_and_hostile_servers_cost_their_calls_and_nothing_else() -> None:
    argv = (sys.executable, "-P", "-m", "tests.bench.mcp_faults", "--quick", "--json")

    ran = subprocess.run(argv, cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    figures = {(figure.name, figure.note): figure for figure in Report.from_json(ran.stdout).figures}
    assert not [figure.cells() for figure in figures.values() if figure.is_missed], ran.stderr
    assert {name for name, _ in figures} >= {"calls that hung", "processes left", "growth of memory", *CASES}
    assert all(figures[f"calls that were {end}", "20 kills"].value > 0 for end in ("answered", "failed", "unknown"))
