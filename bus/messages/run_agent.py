"""The wake-up for a run that may be claimable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NotRequired

from typing_extensions import TypedDict

from bus.messages.message import BusMessage, is_name


class RunAgentWire(TypedDict):
    """A ``RunAgentMessage`` as JSON."""

    v: Literal[1]
    """The version of the form; workers drop messages of another one."""
    run_id: str
    agent_id: str
    thread_id: str
    detached: bool
    """Whether no caller waits for the run."""
    definition_digest: str
    """The digest of the agent's definition with which the run was accepted."""
    queue: NotRequired[str]
    """The queue it is published to, where that is not the deployment's."""
    grant: NotRequired[str]
    """The id of the privilege grant that the run was started with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunAgentMessage(BusMessage):
    """A wake-up: the run may be claimable. SQL decides whether it is."""

    name: ClassVar[str] = "callboard.run_agent"
    handler: ClassVar[str] = "handlers.run_agent"
    inline_handler: ClassVar[str | None] = "handlers.run_agent:handle"

    agent_id: str
    thread_id: str
    detached: bool = False
    definition_digest: str = ""
    grant_id: str | None = None
    """The privilege grant that the run was started with, never a boolean. SQL decides whether the run has it."""

    @classmethod
    def of_run(cls, row: Any) -> RunAgentMessage:
        """Return the message of a run, from the columns of its row that ``FIELDS`` names."""
        return cls(run_id=row.id, **{name: getattr(row, name) for name in FIELDS})

    def to_wire(self) -> RunAgentWire:
        """Return the message as JSON-able data under 2 KB."""
        wire = RunAgentWire(
            v=self.version,
            run_id=self.run_id,
            agent_id=self.agent_id,
            thread_id=self.thread_id,
            detached=self.detached,
            definition_digest=self.definition_digest,
        )
        if self.queue is not None:
            wire["queue"] = self.queue
        if self.grant_id is not None:
            wire["grant"] = self.grant_id
        return wire

    @classmethod
    def from_wire(cls, wire: object) -> RunAgentMessage:
        """Return the message; see ``BusMessage.from_wire``."""
        its, texts = cls.fields_of(wire, "agent_id", "thread_id", "definition_digest")
        names = {"queue": "queue", "grant": "grant_id"}
        optional = {ours: value for name, ours in names.items() if is_name(value := its.get(name))}
        return cls(**texts, **optional, detached=its.get("detached") is True)


FIELDS = tuple("tenant agent_id thread_id detached definition_digest queue grant_id trace_id correlation_id".split())
"""The fields of a message besides the run's id, named like the columns of the table ``runs``."""
