"""What every call of a capability is given besides its arguments, and what becomes of a command's output."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from agents.tools.call_context import ToolContext, current_call
from agents.tools.isolation.call_folder import CallFolder
from agents.tools.isolation.child import Command, Finished, run_command
from agents.tools.isolation.errors import OUTPUT_NOT_JSON, OUTPUT_TOO_LONG, CapabilityFailed
from agents.tools.isolation.guarded import ProcessLimits
from config.definitions.secrets import required_secret
from config.errors import ToolCutOff
from config.identity.contexts import memo
from config.redaction import redact_start
from config.tracing import trace_variables

INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables of the worker that a subprocess gets; no other, and so no key of a provider."""
MAX_SHOWN = 1500
"""Characters of a program's error text in a message."""


def call_variables(call: ToolContext, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that tell a program about its call; all but ``TRACEPARENT`` begin with ``CALLBOARD_``."""
    return trace_variables() | {
        "CALLBOARD_RUN_ID": call.run_id,
        "CALLBOARD_THREAD_ID": call.thread_id,
        "CALLBOARD_CALL_ID": call.call_id,
        "CALLBOARD_IDEMPOTENCY_KEY": call.idempotency_key,
        "CALLBOARD_TENANT": call.tenant,
        "CALLBOARD_PRINCIPAL": call.principal,
        "CALLBOARD_CONTEXT": context_json(call),
        "CALLBOARD_CONFIG": orjson.dumps(dict(config)).decode(),
    }


def context_json(call: ToolContext) -> str:
    """Return the call's contexts as JSON in ASCII, so that a header can have them, too."""
    return json.dumps(memo(call.golden, call.security), separators=(",", ":"))


def inherited_variables() -> dict[str, str]:
    """Return those of the worker's variables that a program may have."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def secret_values(references: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets by the names that the capability gives them.

    Raises:
        SECRET_MISSING: a reference leads to nothing.
    """
    return {name: required_secret(name, reference) for name, reference in references.items()}


def result_of(done: Finished, max_output: int) -> Any:
    """Return the JSON value that a command wrote.

    Raises:
        OUTPUT_TOO_LONG: it wrote more than ``max_output`` bytes and was ended.
        CapabilityFailed: it reported a failure by its exit status.
        ToolCutOff: a signal ended it: a limit, or the machine's lack of memory.
        OUTPUT_NOT_JSON: it ended well and wrote something else.
    """
    if done.is_cut:
        raise OUTPUT_TOO_LONG(f"it wrote more than {max_output:,} bytes and was ended.")
    if done.code > 128:
        raise ToolCutOff(_with_errors(f"signal {done.code - 128} ended it, perhaps a limit of time or memory", done))
    if done.code != 0:
        raise CapabilityFailed(_with_errors(f"it ended with status {done.code}", done))
    try:
        return orjson.loads(done.output)
    except orjson.JSONDecodeError as error:
        what = str(error) if done.output.strip() else "it is empty"
        raise OUTPUT_NOT_JSON(_with_errors(f"its output is not JSON: {what[:200]}", done)) from error


def _with_errors(problem: str, done: Finished) -> str:
    text = redact_start(done.errors.strip(), len(done.errors))[-MAX_SHOWN:]
    return f"{problem}: {text}" if text else f"{problem}, and wrote no error."


# --- programs


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
