"""Which tier a test belongs to; a unit test that opens a socket, starts a process or imports LiteLLM fails.

Tiers, by marker: ``parity`` (the real thing: LiteLLM over HTTP, Redis, processes of one test, conversations of an MCP
client, what a clock measures, what takes a tenth of a second of CPU), ``journey`` (a whole fleet), ``browser``,
``postgres``. A test without a marker is a unit test: in memory, on SQLite at most.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

MARKERS = ("journey", "browser", "postgres", "parity")
JOURNEY_S = 180
"""Seconds after which a journey counts as hung, unless it says otherwise: others use the processors meanwhile."""
SERVERS = frozenset(
    {"redis_server", "own_redis", "identity_provider", "model", "server", "elsewhere", "type_", "maintenance"}
)
"""Fixtures that start a server; a test that asks for one is in the parity tier unless it has a marker."""
REMEDY = "a unit test opens no socket, starts no process and imports no LiteLLM; mark the test `parity`"


def mark_tiers(items: Iterable[pytest.Item]) -> None:
    """Every test that needs a server has a tier's marker afterwards, and a journey has time."""
    for item in items:
        if item.get_closest_marker("journey") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(JOURNEY_S))
        if SERVERS.intersection(getattr(item, "fixturenames", ())) and is_unit(item):
            item.add_marker("parity")


def is_unit(item: pytest.Item) -> bool:
    """Return whether a test has no other tier's marker."""
    return not any(item.get_closest_marker(name) for name in MARKERS)


NAMED = ("journey", "browser")
"""Tiers whose tests name them in their own file; fixtures mark those of the others."""
_WHOLE = re.compile(rf"^pytestmark = .*?\bpytest\.mark\.({'|'.join(MARKERS)})\b", re.MULTILINE)
"""The line that puts all tests of a file into a tier."""


def is_left_out(path: Path, expression: str) -> bool:
    """Return whether ``-m expression`` selects no test of a file, as its text says: importing it takes time."""
    if not expression or not (path.name.startswith("test_") and path.suffix == ".py"):
        return False
    text = path.read_text()
    if expression.startswith(NAMED) and expression.split(maxsplit=1)[0] not in text:
        return True
    match = _WHOLE.search(text)
    return match is not None and f"not {match.group(1)}" in expression


class UnitGuard:
    """Fails unit tests that reach outside, when nothing but unit tests was selected.

    Beside other tiers the guard is off: threads that those tests left behind would be blamed on a unit test.
    """

    def __init__(self) -> None:
        self._is_on = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        is_run = bool(session.items) and not session.config.option.collectonly
        self._is_on = is_run and all(is_unit(item) for item in session.items)
        if self._is_on:  # a hook stays for good, and each event of the interpreter calls it
            sys.addaudithook(self._hook())

    def pytest_sessionfinish(self) -> None:
        self._is_on = False

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """Return what the interpreter calls at each event, of which the unit tests cause millions.

        It is a function, as the interpreter takes four times as long to call a bound method.
        """

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _WATCHED:
                self._audit(event, arguments)

        return audit

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_on and (event != "import" or arguments[0] == "litellm"):
            raise AssertionError(f"{event}: {REMEDY}. {arguments!r:.200}")


_WATCHED = frozenset(
    {"socket.connect", "socket.bind", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "import"}
)
