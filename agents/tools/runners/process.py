"""The runner of subprocesses: JSON on the standard input, JSON on the standard output, no shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from agents.tools.call_context import ToolContext, current_call
from agents.tools.isolation.call_folder import CallFolder
from agents.tools.isolation.child import Command, run_command
from agents.tools.isolation.limits import ProcessLimits
from agents.tools.runners.calling import call_variables, inherited_variables, result_of, secret_values

BEYOND_S = 5.0
"""Seconds beyond a call's time after which its guard ends it, where the worker does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRunner:
    """Executes a program of this machine for each call, with an empty home and an empty working folder of its own."""

    folders: Path
    """Below it are the folders of the calls."""
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """References by the name of the program's variable."""
    config: Mapping[str, Any] = field(default_factory=dict)
    limits: ProcessLimits = field(default_factory=ProcessLimits)

    async def call(self, **arguments: Any) -> Any:
        """Return the JSON value that the program writes.

        Raises:
            CapabilityFailed, ToolCutOff, OUTPUT_TOO_LONG, OUTPUT_NOT_JSON, SECRET_MISSING: see ``result_of``.
        """
        call = current_call()
        with CallFolder(self.folders, call.timeout_s + BEYOND_S) as folder:
            done = await run_command(self._command(arguments, call, folder))
        return result_of(done, self.limits.output_kb * 1024)

    def _command(self, arguments: Mapping[str, Any], call: ToolContext, folder: CallFolder) -> Command:
        own = {
            "HOME": str(folder.home),
            "CALLBOARD_SANDBOX": str(call.sandbox),
            **self.environment,
            **secret_values(self.secrets),
        }
        return Command(
            argv=self.command,
            environment=inherited_variables() | call_variables(call, self.config) | own,
            folder=folder.work,
            removed=folder.path,
            stdin=orjson.dumps(dict(arguments)),
            wall_s=call.timeout_s + BEYOND_S,
            max_output=self.limits.output_kb * 1024,
            limits=self.limits.by_resource,
            processes=self.limits.processes,
        )
