"""Runs the conformance suite for one era of the protocol, and judges what it found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.mcp_suite.environment import NODE, SUITE
from tests.mcp_suite.remarks import CLIENT, SERVER

ERAS = ("2025-11-25", "2026-07-28")
"""The last revision with the handshake, and the first without it."""
SUITE_S = 240
SCENARIO_MS = 60_000
"""The suite's own half a minute is short where others work."""
RELAY = Path(__file__).with_name("relay.py")
_WIRE = "wire-schema-"
"""What the checks begin with that every scenario has, of the form of its messages."""
_WRONG = ("FAILURE", "WARNING")
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\dZ-]+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScenarioResult:
    """What the suite found in one scenario."""

    name: str
    wrong: Mapping[str, str]
    """The checks that failed or warned, with what they say."""
    is_tried: bool
    """Whether a check of its own succeeded; otherwise it had nothing to look at."""

    def applies(self, remarks: Mapping[str, str]) -> bool:
        """Return whether it is to pass; a remark about the scenario counts in the eras in which it does not pass."""
        return self.name not in remarks or (self.is_tried and not self.wrong)

    def unexplained(self, remarks: Mapping[str, str]) -> list[str]:
        """Return what is not as it should be and not named by the remarks, a line each."""
        if not self.applies(remarks):
            return []
        if not self.is_tried:
            return [f"{self.name}: no check succeeded"]
        return [
            f"{self.name}: {check}: {remark_text}"
            for check, remark_text in self.wrong.items()
            if f"{self.name}:{check}" not in remarks
        ]

    def named(self) -> set[str]:
        """Return what a remark may name."""
        checks = {f"{self.name}:{check}" for check in self.wrong}
        return checks if self.is_tried and not self.wrong else {self.name, *checks}


class SuiteRun:
    """The suite's runs against a server, or against a client."""

    def __init__(self, folder: Path, side: str, *words: str, remarks: Mapping[str, str]) -> None:
        self._folder = folder
        self._command = (str(NODE), str(SUITE), side, *words, "--timeout", str(SCENARIO_MS))
        self._prefix = "server-" if side == "server" else ""  # of the names of the suite's folders
        self._remarks = remarks

    @classmethod
    def of_server(cls, folder: Path, url: str) -> SuiteRun:
        """Return the one against the server at ``url``."""
        return cls(folder, "server", "--url", url, remarks=SERVER)

    @classmethod
    def of_client(cls, folder: Path, port: int) -> SuiteRun:
        """Return the one against the client that ``driver`` plays at ``port``."""
        return cls(folder, "client", "--command", f"{sys.executable} -I -S {RELAY} {port}", remarks=CLIENT)

    def results(self, era: str) -> list[ScenarioResult]:
        """Return the results of all scenarios of an era, those that are not required by it as well.

        Those that are not as they should be run once more, alone: some wait for half a second and no longer, and the
        suite tests a client in all scenarios at once.
        """
        scenario_results = self._run(era, "--requirements", era)
        return [
            self.result(result.name, era) if result.unexplained(self._remarks) else result
            for result in scenario_results
        ]

    def result(self, name: str, era: str) -> ScenarioResult:
        """Return the result of one scenario."""
        words = ("--scenario", name, "--spec-version", era, "--force")
        [scenario_result] = self._run(f"{era}-{name.replace('/', '-')}", *words)
        return scenario_result

    def _run(self, folder: str, *words: str) -> list[ScenarioResult]:
        directory = self._folder / folder
        command = (*self._command, "--output-dir", str(directory), *words)
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SUITE_S, check=False)
        files = {file: str(file.parent.relative_to(directory)) for file in sorted(directory.rglob("checks.json"))}
        assert files, ran.stdout + ran.stderr
        return [_result(_STAMP.sub("", name).removeprefix(self._prefix), file) for file, name in files.items()]


def _result(name: str, file: Path) -> ScenarioResult:
    checks: list[Mapping[str, object]] = json.loads(file.read_text())
    wrong = {
        entry["id"]: entry.get("errorMessage") or entry.get("details") for entry in checks if entry["status"] in _WRONG
    }
    passed = [entry for entry in checks if entry["status"] == "SUCCESS" and not str(entry["id"]).startswith(_WIRE)]
    messages = {str(check): str(text)[:500] for check, text in wrong.items()}
    return ScenarioResult(name=name, wrong=messages, is_tried=bool(passed))
