"""The one call of a run of kind ``tool``: as it is accepted, and as an owner reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, select

from config.database.tables import messages
from config.ids import new_id

AGENT, TOOL = "agent", "tool"
"""The kinds of runs: an agent's turn, and one call of one tool."""
NO_MODEL = ""
"""The model of a run of kind ``tool``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCall:
    """The call that a run of kind ``tool`` makes."""

    name: str
    """The tool's name, as its agent's model would write it."""
    arguments: Mapping[str, Any]

    def message_fields(self) -> dict[str, Any]:
        """Return what the user's message has besides its text: the call, in the form of an assistant's message."""
        text = orjson.dumps(dict(self.arguments)).decode()
        call = {"call_id": new_id("call"), "name": self.name, "arguments": self.arguments, "arguments_text": text}
        return {"tool_calls": [call]}


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedCall:
    """The call of a run of kind ``tool``, as it was accepted."""

    message_id: str
    """The user's message that has it."""
    call_id: str
    name: str
    arguments_text: str


def read_call(connection: Connection, run_id: str) -> AcceptedCall | None:
    """Return the call that a run of kind ``tool`` was accepted with; None of a run of another kind."""
    row = connection.execute(_MESSAGE, {"run_": run_id}).first()
    calls = orjson.loads(row.data_json).get("tool_calls") if row is not None else None
    if row is None or not calls:
        return None
    (call,) = calls
    return AcceptedCall(message_id=row.id, **{name: call[name] for name in ("call_id", "name", "arguments_text")})


_MESSAGE = select(messages.c.id, messages.c.data_json).where(
    messages.c.run_id == bindparam("run_"), messages.c.role == "user"
)
