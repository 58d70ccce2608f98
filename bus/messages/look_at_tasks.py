"""The wake-up for the waits for tasks of Celery applications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NotRequired

from typing_extensions import TypedDict

from bus.messages.message import BusMessage, is_name


class LookAtTasksWire(TypedDict):
    """A ``LookAtTasksMessage`` as JSON."""

    v: Literal[1]
    """The version of the form; workers drop messages of another one."""
    run_id: str
    queue: NotRequired[str]
    """The queue it is published to, where that is not the deployment's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LookAtTasksMessage(BusMessage):
    """A wake-up: a run ended while it waited for tasks, which a worker has to revoke. SQL decides which they are."""

    name: ClassVar[str] = "callboard.look_at_tasks"
    handler: ClassVar[str] = "handlers.look_at_tasks"

    def to_wire(self) -> LookAtTasksWire:
        """Return the message as JSON-able data under 2 KB."""
        wire = LookAtTasksWire(v=self.version, run_id=self.run_id)
        if self.queue is not None:
            wire["queue"] = self.queue
        return wire

    @classmethod
    def from_wire(cls, wire: object) -> LookAtTasksMessage:
        """Return the message; see ``BusMessage.from_wire``."""
        its, texts = cls.fields_of(wire)
        queue = its.get("queue")
        return cls(**texts, queue=queue if is_name(queue) else None)
