"""The checks that a web process makes for its operators: beside each other, within a time, and not twice at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Future, wait
from threading import Lock, Thread
from types import MappingProxyType

from config.fresh import FreshFor
from config.settings import Settings
from web.doctor import Finding, examine

CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "disk": "web.doctor.database:check_disks",
        "redis": "web.doctor.servers:check_redis",
        "broker": "web.doctor.servers:check_broker",
        "addresses": "web.doctor.servers:check_addresses",
        "tls": "web.doctor.tls:check_tls",
        "database": "web.doctor.database:check_database",
        "deployment": "web.doctor.servers:check_deployment",
        "workers": "web.doctor.workers:check_workers",
        "queues": "web.doctor.queues:check_queues",
        "observers": "web.doctor.observers:check_feeding",
        "agents": "web.doctor.agents:check_files",
        "versions": "web.doctor.versions:check_versions",
        "waiting runs": "web.doctor.versions:check_waiting_runs",
    }
)
LIMIT_S = 5.0
"""Seconds that an answer waits for the checks."""
FRESH_S = 5.0
"""Seconds for which the same findings are the answer again."""
_COMMAND = re.compile(r"`((?:\./callboard|redis-cli|timedatectl|chmod) [^`]+)`")


class ServerDoctor:
    """The checks of one web process; safe for any thread."""

    def __init__(self, checks: Mapping[str, str] = CHECKS, limit_s: float = LIMIT_S) -> None:
        self._checks = checks
        self._limit_s = limit_s
        self._lock = Lock()
        self._running: dict[str, Future[list[Finding]]] = {}
        self._last = FreshFor[list[Finding]]()

    def findings(self, settings: Settings) -> list[Finding]:
        """Return what the checks say, in their order; it takes ``limit_s`` at most."""
        return self._last.get(FRESH_S, lambda: self._examined(settings))

    def _examined(self, settings: Settings) -> list[Finding]:
        futures = {about: self._begun(about, settings) for about in self._checks}
        wait(futures.values(), timeout=self._limit_s)
        return [finding for about, future in futures.items() for finding in self._said(about, future)]

    def _begun(self, about: str, settings: Settings) -> Future[list[Finding]]:
        """Return the check that still runs, or begin it."""
        with self._lock:
            future = self._running.get(about)
            if future is None or future.done():
                future = self._running[about] = Future()
                work = (future, about, self._checks[about], settings)
                Thread(target=_examine, args=work, name=f"callboard-doctor-{about}", daemon=True).start()
            return future

    def _said(self, about: str, future: Future[list[Finding]]) -> list[Finding]:
        if future.done():
            return future.result()
        text = f"could not be checked within {self._limit_s:g} s: what it asks does not answer. Ask again in a moment."
        return [Finding(about, "warn", text)]


def command_in(text: str) -> str | None:
    """Return the first command that a finding's sentence names as its remedy."""
    match = _COMMAND.search(text)
    return match[1] if match else None


def _examine(future: Future[list[Finding]], about: str, path: str, settings: Settings) -> None:
    try:
        future.set_result(list(examine(settings, {about: path})))
    except BaseException as error:  # the answer must not wait for a thread that has ended
        future.set_result([Finding(about, "fail", f"could not be checked: {type(error).__name__}")])
