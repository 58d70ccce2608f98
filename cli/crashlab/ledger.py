"""The ledger: the calls that arrived at an agent's tools, in a file outside the tested system, which survives a kill.

A call is recorded before the tool's function is called (``began``) and after it (``returned``, ``raised``). A kill may
come between the function's effect and the second line, so ``began`` counts as an effect.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import orjson

from agents.tools import current_call
from agents.tools.results import to_result
from agents.tools.tool import MARKS, Tool

VARIABLE = "CRASHTEST_LEDGER"
"""Environment variable with the ledger's path in every process of a lab; a tool may test whether it is set."""
BEGAN, RETURNED, RAISED = "began", "returned", "raised"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of the ledger."""

    mark: str
    """began, returned or raised."""
    tool: str
    says: str | None
    """The effect that the tool's own marks declare; None without marks."""
    key: str
    """The call's idempotency key."""
    call_id: str
    arguments: Mapping[str, Any]
    result: Any = None
    """The result of ``returned``, as JSON data."""


def watched(tool: Tool) -> Tool:
    """Return the same tool with its calls recorded in this process's ledger."""
    function, note = tool.function, partial(_note, tool)

    @contextmanager
    def recorded(arguments: Mapping[str, Any]) -> Iterator[None]:
        note(BEGAN, arguments)
        try:
            yield
        except BaseException:
            note(RAISED, arguments)
            raise

    @wraps(function)
    def called(**arguments: Any) -> Any:
        with recorded(arguments):
            result = function(**arguments)
        note(RETURNED, arguments, to_result(result))
        return result

    @wraps(function)
    async def awaited(**arguments: Any) -> Any:
        with recorded(arguments):
            result = await function(**arguments)
        note(RETURNED, arguments, to_result(result))
        return result

    return dataclasses.replace(tool, function=awaited if tool.is_async else called)


def _note(tool: Tool, mark: str, arguments: Mapping[str, Any], result: Any = None) -> None:
    call = current_call()
    line = Entry(
        mark=mark,
        tool=tool.name,
        says=str(tool.effect) if hasattr(tool.function, MARKS) else None,
        key=call.idempotency_key,
        call_id=call.call_id,
        arguments=arguments,
        result=result,
    )
    write(Path(os.environ[VARIABLE]), line)


def write(path: Path, entry: Entry) -> None:
    """Append a line and sync it to the disk; an empty line before it ends one that a kill truncated."""
    line = b"\n%s\n" % orjson.dumps(dataclasses.asdict(entry), default=str, option=orjson.OPT_NON_STR_KEYS)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def read(path: Path) -> Sequence[Entry]:
    """Return the entries in order, without those that a kill truncated."""
    if not path.exists():
        return ()
    entries = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        with suppress(orjson.JSONDecodeError):
            entries.append(Entry(**orjson.loads(line)))
    return tuple(entries)
