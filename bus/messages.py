"""The commands that travel: ids, flags, a digest and a schema version. Never history, never a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from config.errors import Permanent


class MessageInvalid(Permanent):
    """What came over the wire is not a message of ours; it is counted and dropped."""

    code = "message_invalid"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunAgentMessage:
    """Wake-up: there may be something to do for this run. SQL says what, and whether it is true."""

    name: ClassVar[str] = "callboard.run_agent"
    """The task's name on the wire; never a module path."""
    version: ClassVar[int] = 1

    run_id: str
    agent_id: str
    thread_id: str
    detached: bool = False
    definition_digest: str = ""
    grant: str | None = None
    """The id of a privilege grant, never a boolean."""

    def to_wire(self) -> dict[str, Any]:
        """Return the message as JSON-able data under 2 KB."""
        wire: dict[str, Any] = {
            "v": self.version, "run_id": self.run_id, "agent_id": self.agent_id, "thread_id": self.thread_id,
            "detached": self.detached, "definition_digest": self.definition_digest,
        }  # fmt: skip
        if self.grant is not None:
            wire["grant"] = self.grant
        return wire

    @classmethod
    def from_wire(cls, wire: object) -> RunAgentMessage:
        """Return the message, whatever a newer version added to it.

        Raises:
            MessageInvalid: it is garbage, forged, or of a version we do not know.
        """
        if not isinstance(wire, Mapping) or wire.get("v") != cls.version:
            raise MessageInvalid("this is not a message of version 1; it was dropped.")
        texts = {name: wire.get(name, "") for name in ("run_id", "agent_id", "thread_id", "definition_digest")}
        if not all(isinstance(text, str) and len(text) <= 128 for text in texts.values()) or not texts["run_id"]:
            raise MessageInvalid("a field of the message is missing, too long or not text; it was dropped.")
        grant = wire.get("grant")
        return cls(**texts, detached=wire.get("detached") is True, grant=grant if isinstance(grant, str) else None)
