"""The recorded events of an ended run, for assertions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bus.payloads import EndPayload, Payload, ResponsePayload, ToolResultPayload, WithdrawnPayload

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """The recorded events of a run that has ended."""

    events: Sequence[Payload]

    @property
    def end(self) -> EndPayload:
        """The last event: status, reason, output, usage."""
        last = self.events[-1]
        assert isinstance(last, EndPayload), f"the last event is {type(last).__name__}"
        return last

    @property
    def output(self) -> Any:
        """The agent's answer: text, or data where it has an output schema."""
        return self.end.output

    @property
    def text(self) -> str:
        """The streamed pieces of all answers, without those that were withdrawn."""
        gone = {n for one in self.of(WithdrawnPayload) for first, last in one.ranges for n in range(first, last + 1)}
        return "".join(piece.content for piece in self.of(ResponsePayload) if piece.seq not in gone)

    def of(self, kind: type[P]) -> list[P]:
        """Return the events of one type, in order."""
        return [event for event in self.events if type(event) is kind]

    def results(self, tool: str) -> list[Any]:
        """Return the results of a tool's calls, in the order they ended."""
        return [result.result for result in self.of(ToolResultPayload) if result.name == tool]
