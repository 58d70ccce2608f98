"""A governed call of a tool passes few files, so that one reader can follow it."""

from __future__ import annotations

import pytest

from tests.processes import run_python

MOST = 25
"""Files of ``agents/``; decision 55 says which, and why no fewer."""


@pytest.mark.parity
def test_a_governed_call_passes_few_files() -> None:
    passed = run_python("-m", "tests.agents.call_path")

    assert passed.returncode == 0, passed.stderr
    assert "agents/steps/stages.py" in passed.stdout
    assert len(passed.stdout.split()) <= MOST, passed.stdout
