"""The ledger: what arrived at an agent's tools, in a file outside of what is tested, which no kill takes back.

A call is written down before the tool's function is called (``began``) and after it (``returned``, ``raised``). A
kill may come between the function's effect and the second line, so what counts as an effect is ``began``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import orjson

from agents.tools import current_call
from agents.tools.results import to_result
from agents.tools.tool import MARKS, Tool

VARIABLE = "CRASHTEST_LEDGER"
"""Names the ledger's file in the environment of every process of a lab; a tool may look whether it is in one."""
BEGAN, RETURNED, RAISED = "began", "returned", "raised"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line."""

    mark: str
    """began, returned or raised."""
    tool: str
    says: str | None
    """The effect the tool's own marks name; None of a function that has none."""
    key: str
    """The call's idempotency key."""
    call_id: str
    arguments: Mapping[str, Any]
    result: Any = None
    """Of ``returned``, as JSON data."""


def watched(tool: Tool) -> Tool:
    """Return the same tool, whose calls are written to this process's ledger."""
    function, says = tool.function, _own_effect(tool)

    def note(mark: str, arguments: Mapping[str, Any], result: Any = None) -> None:
        call = current_call()
        line = Entry(
            mark=mark, tool=tool.name, says=says, key=call.idempotency_key, call_id=call.call_id, arguments=arguments,
            result=result,
        )  # fmt: skip
        write(Path(os.environ[VARIABLE]), line)

    @wraps(function)
    def called(**arguments: Any) -> Any:
        note(BEGAN, arguments)
        try:
            result = function(**arguments)
        except BaseException:
            note(RAISED, arguments)
            raise
        note(RETURNED, arguments, to_result(result))
        return result

    @wraps(function)
    async def awaited(**arguments: Any) -> Any:
        note(BEGAN, arguments)
        try:
            result = await function(**arguments)
        except BaseException:
            note(RAISED, arguments)
            raise
        note(RETURNED, arguments, to_result(result))
        return result

    return dataclasses.replace(tool, function=awaited if tool.is_async else called)


def _own_effect(tool: Tool) -> str | None:
    return str(tool.effect) if hasattr(tool.function, MARKS) else None


def write(path: Path, entry: Entry) -> None:
    """Add a line that is on the disk when this returns."""
    line = orjson.dumps(dataclasses.asdict(entry), default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def read(path: Path) -> Sequence[Entry]:
    """Return the lines in the order they were written; a line that a kill cut off was never whole."""
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")[:-1]
    return tuple(Entry(**orjson.loads(line)) for line in lines)
