"""What every message is: its name on the wire, its handler, and how it is written and read.

A message is a wake-up: it carries ids, flags, digests and a version of its form, no history and no secret. SQL says
what is to be done, so a message may be lost, delivered twice or forged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeGuard

from config.errors import Permanent, Topic
from config.tracing import CORRELATION_ID, TRACEPARENT, span_id_of, trace_headers, trace_headers_in, trace_id_of

_SURROGATE = re.compile("[\ud800-\udfff]")


class MessageInvalid(Permanent):
    """An item of the queue is not a message of Callboard."""

    code = "message_invalid"
    topic = Topic.RUN
    over_http = False
    remedy = "It is logged and dropped; find out which program writes to this queue."


@dataclass(frozen=True, kw_only=True, slots=True)
class BusMessage:
    """A message for one handler. Another one is a class in a module beside this one, and its handler's module."""

    name: ClassVar[str]
    """Its name on the wire, which is that of a Celery task; never a module path."""
    handler: ClassVar[str]
    """The module that handles it in a worker (``bus.celery_app.handles``), since the bus imports no handlers."""
    inline_handler: ClassVar[str | None] = None
    """``module:function`` of the coroutine that handles it in the process that sends it, where one may."""
    version: ClassVar[Literal[1]] = 1
    """The version of its form; workers drop messages of another one."""

    run_id: str
    queue: str | None = None
    """The queue it is published to, where that is not the deployment's."""
    tenant: str = field(default="", compare=False)
    """Whose run it is, for the hints of the process that publishes it; not on the wire, since workers read SQL."""
    trace_id: str | None = None
    """The run's trace id, for log records alone; in a header of the message, as ``correlation_id`` is."""
    correlation_id: str | None = None
    """The one that a client chose for the run."""

    def to_wire(self) -> Mapping[str, Any]:
        """Return the message as JSON-able data under 2 KB."""
        raise NotImplementedError

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Return the message; fields that a newer version added are ignored.

        Raises:
            MessageInvalid: it is malformed, forged, or of an unknown version.
        """
        raise NotImplementedError

    @classmethod
    def fields_of(cls, wire: object, *names: str) -> tuple[Mapping[str, Any], dict[str, str]]:
        """Return the wire of a message of this version, and these texts of it, ``run_id`` among them.

        Raises:
            MessageInvalid: it is of another version, or a text is not valid.
        """
        if not isinstance(wire, Mapping) or wire.get("v") != cls.version:
            raise MessageInvalid("this is not a message of version 1; it was dropped.")
        texts = {name: wire.get(name, "") for name in ("run_id", *names)}
        if not all(is_name(text) for text in texts.values()) or not texts["run_id"]:
            raise MessageInvalid("a field of the message is missing, too long or not text; it was dropped.")
        return wire, texts

    def to_headers(self) -> dict[str, str]:
        """Return the headers of the message, beside the broker's own."""
        return trace_headers(self.trace_id, self.correlation_id, span_id_of(self.run_id))

    def with_headers(self, headers: Mapping[str, Any]) -> Self:
        """Return the message with what its headers say; malformed ones are as none."""
        trace_headers = trace_headers_in(headers)
        trace_id, correlation_id = trace_id_of(trace_headers.get(TRACEPARENT)), trace_headers.get(CORRELATION_ID)
        chosen = correlation_id if correlation_id != trace_id else None
        return replace(self, trace_id=trace_id, correlation_id=chosen)


def is_name(value: object) -> TypeGuard[str]:
    """Return whether a field is text that a database can keep: no NUL, no half of a surrogate pair, not too long."""
    return isinstance(value, str) and len(value) <= 128 and "\0" not in value and not _SURROGATE.search(value)
