"""A pytest plugin for `./callboard test`: says on a pipe which test begins and how each ended, one JSON line each.

`-p tests.progress --tell FD`. With pytest-xdist it is the controlling process that tells, for all of its processes.
"""

from __future__ import annotations

import json
import os
from typing import IO, Any

import pytest

LONG_S = 0.05
"""A set-up that took less does not show among the slowest tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tell", type=int, metavar="FD", help="tell the progress on this file descriptor")


def pytest_configure(config: pytest.Config) -> None:
    pipe = config.getoption("--tell")
    if pipe is not None and not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Teller(os.fdopen(pipe, "w", buffering=1)))


def pytest_sessionstart(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        plugins = session.config.pluginmanager.get_plugins()
        send_less(next(plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor"))


def send_less(interactor: Any) -> None:
    """Have a process of pytest-xdist no longer send that a test was set up, or cleaned up after, well and quickly.

    That is most of what it sends, and packing and unpacking it took two of the hundred seconds of a check. The keywords
    of a call that passed, which nothing reads, are most of the rest.
    """
    send = interactor.sendevent

    def sendevent(name: str, **what: Any) -> None:
        report = what.get("data", {})
        is_known = name == "testreport" and report["when"] != "call" and report["outcome"] == "passed"
        if not is_known or report["duration"] >= LONG_S:
            if name == "testreport" and report["outcome"] == "passed":
                report["keywords"] = {}
            send(name, **what)

    interactor.sendevent = sendevent


class Teller:
    """Writes what ``cli/dev/progress.py`` reads."""

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
