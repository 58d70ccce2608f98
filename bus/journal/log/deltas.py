"""The deltas of messages that are not finished: in memory, or sealed in SQL until they are withdrawn or final."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bus.journal.log.events import block_row
from bus.payloads import Payload, WithdrawnPayload, ranges_of

Piece = tuple[Payload, int]
"""A delta, and when it came, in ms since 1970."""


class UnfinishedDeltas:
    """Those of one owner of a run, by the ids of their messages."""

    def __init__(self) -> None:
        self.held: dict[str, list[Piece]] = {}
        """In memory alone."""
        self._sealed: dict[str, list[int]] = {}

    @property
    def first_held(self) -> int | None:
        """The lowest number that is in memory alone."""
        return min((pieces[0][0].seq for pieces in self.held.values() if pieces), default=None)

    def pieces(self) -> dict[str, list[Piece]]:
        """Return a copy of what is in memory."""
        return {message_id: list(pieces) for message_id, pieces in self.held.items() if pieces}

    def messages_beside(self, message_ids: Collection[str]) -> list[str]:
        """Return the ids of all messages but these."""
        return [message_id for message_id in {**self.held, **self._sealed} if message_id not in message_ids]

    def blocks(self, message_ids: Iterable[str], run_id: str, fence: int) -> list[dict[str, Any]]:
        """Return the rows that seal what is held of these messages."""
        held = [pieces for message_id in message_ids if (pieces := self.held.get(message_id))]
        return [block_row(pieces, run_id, fence) for pieces in held]

    def withdrawal(self, message_ids: Sequence[str]) -> list[Payload]:
        """Return the event that withdraws these messages' deltas, if any were delivered."""
        held = [payload.seq for message_id in message_ids for payload, _ in self.held.get(message_id, ())]
        sealed = [number for message_id in message_ids for number in self._sealed.get(message_id, ())]
        return [WithdrawnPayload(ranges=ranges_of(held + sealed))] if held or sealed else []

    def note_sealed(self, pieces: Mapping[str, Sequence[Piece]]) -> None:
        """Keep of these pieces, the first ones of their messages, the numbers alone: SQL has them."""
        for message_id, sealed in pieces.items():
            del self.held[message_id][: len(sealed)]
            self._sealed.setdefault(message_id, []).extend(payload.seq for payload, _ in sealed)

    def forget(self, message_ids: Iterable[str]) -> None:
        """Forget messages that are finished or withdrawn."""
        for message_id in message_ids:
            self.held.pop(message_id, None)
            self._sealed.pop(message_id, None)
