"""A pytest plugin for `./callboard test`: says on a pipe which test begins and how each ended, one JSON line each.

`-p tests.progress --tell FD`. With pytest-xdist it is the controlling process that tells, for all of its processes.
"""

from __future__ import annotations

import json
import os
from typing import IO, Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tell", type=int, metavar="FD", help="tell the progress on this file descriptor")


def pytest_configure(config: pytest.Config) -> None:
    pipe = config.getoption("--tell")
    if pipe is not None and not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Teller(os.fdopen(pipe, "w", buffering=1)))


class Teller:
    """Writes what ``cli/devtools/progress.py`` reads."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._outcomes: dict[str, tuple[str, float]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tell(total=len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._tell(total=len(ids))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tell(began=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, seconds = self._outcomes.get(report.nodeid, ("passed", 0.0))
        worse = report.outcome if report.outcome != "passed" and outcome != "failed" else outcome
        self._outcomes[report.nodeid] = (worse, seconds + report.duration)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        outcome, seconds = self._outcomes.pop(nodeid, ("passed", 0.0))
        self._tell(ended=nodeid, outcome=outcome, seconds=seconds)

    def _tell(self, **what: Any) -> None:
        self._pipe.write(json.dumps(what) + "\n")
