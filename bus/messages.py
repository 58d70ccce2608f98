"""The commands sent through the broker: ids, flags, a digest and a schema version; no history and no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NotRequired, TypeGuard

from typing_extensions import TypedDict

from config.errors import Permanent, Topic
from config.tracing import CORRELATION_ID, TRACEPARENT, trace_headers, trace_headers_in, trace_id_of

_SURROGATE = re.compile("[\ud800-\udfff]")


class MessageInvalid(Permanent):
    """An item of the queue is not a message of Callboard."""

    code = "message_invalid"
    topic = Topic.RUN
    over_http = False
    remedy = "It is logged and dropped; find out which program writes to this queue."


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
class RunAgentMessage:
    """A wake-up: the run may be claimable. SQL decides whether it is."""

    name: ClassVar[str] = "callboard.run_agent"
    """The task's name on the wire; never a module path."""
    version: ClassVar[Literal[1]] = 1

    run_id: str
    agent_id: str
    thread_id: str
    detached: bool = False
    definition_digest: str = ""
    queue: str | None = None
    """The queue it is published to, where that is not the deployment's."""
    tenant: str = field(default="", compare=False)
    """Whose run it is, for the hints of the process that publishes it; not on the wire, since workers read SQL."""
    grant_id: str | None = None
    """The privilege grant that the run was started with, never a boolean. SQL decides whether the run has it."""
    trace_id: str | None = None
    """The run's trace id, for log records alone; in a header of the message, as ``correlation_id`` is."""
    correlation_id: str | None = None
    """The one that a client chose for the run."""

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
        """Return the message; fields that a newer version added are ignored.

        Raises:
            MessageInvalid: it is malformed, forged, or of an unknown version.
        """
        if not isinstance(wire, Mapping) or wire.get("v") != cls.version:
            raise MessageInvalid("this is not a message of version 1; it was dropped.")
        texts = {name: wire.get(name, "") for name in ("run_id", "agent_id", "thread_id", "definition_digest")}
        if not all(_is_name(text) for text in texts.values()) or not texts["run_id"]:
            raise MessageInvalid("a field of the message is missing, too long or not text; it was dropped.")
        names = {"queue": "queue", "grant": "grant_id"}
        optional = {ours: value for name, ours in names.items() if _is_name(value := wire.get(name))}
        return cls(**texts, **optional, detached=wire.get("detached") is True)

    def to_headers(self) -> dict[str, str]:
        """Return the headers of the message, beside the broker's own."""
        return trace_headers(self.trace_id, self.correlation_id)

    def with_headers(self, headers: Mapping[str, Any]) -> RunAgentMessage:
        """Return the message with what its headers say; malformed ones are as none."""
        found = trace_headers_in(headers)
        trace_id, correlation_id = trace_id_of(found.get(TRACEPARENT)), found.get(CORRELATION_ID)
        chosen = correlation_id if correlation_id != trace_id else None
        return replace(self, trace_id=trace_id, correlation_id=chosen)


def _is_name(value: object) -> TypeGuard[str]:
    """Return whether a field is text that a database can keep: no NUL, no half of a surrogate pair, not too long."""
    return isinstance(value, str) and len(value) <= 128 and "\0" not in value and not _SURROGATE.search(value)


FIELDS = tuple("tenant agent_id thread_id detached definition_digest queue grant_id trace_id correlation_id".split())
"""The fields of a message besides the run's id, named like the columns of the table ``runs``."""
