"""Writes what agents say and do to files that a person or a machine can read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from bus.payloads import EndPayload, MessagePayload, Payload, ReasoningPayload, ResponsePayload, WithdrawnPayload
from config.redaction import redact
from config.settings import Settings
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.held_text import HeldText
from observers.log_lines import Record, json_line, text_line
from observers.log_record import record_of
from observers.log_slot import LogSlot
from observers.rotated_file import RotatedFile

log = logging.getLogger(__name__)

MAX_BYTES = 10 * 1024 * 1024
"""Size at which a file is set aside."""
KEEP = 5
"""Files kept of each slot, with the one that is written to."""
MAX_PENDING = 1024 * 1024
"""Bytes of lines held in memory while the disk takes none; beyond it the oldest are lost."""
MAX_HELD = 1000
"""Messages whose pieces are gathered at a time."""

Piece = ResponsePayload | ReasoningPayload
Held = tuple[HeldText, AgentFacts, Piece, RunFacts]


class SimpleLoggerObserver(AgentObserver):
    """Writes one line per event into ``logs/runs-<slot>.log`` of the state folder.

    Every process has a slot of its own. Whole messages by default, pieces of text on request; secrets
    are replaced. A disk that takes nothing costs one warning, and the lines are written when it does again.
    """

    name: ClassVar[str] = "logger"

    def __init__(
        self,
        folder: Path,
        *,
        as_json: bool = False,
        deltas: bool = False,
        max_bytes: int = MAX_BYTES,
        keep: int = KEEP,
        max_age_s: float | None = None,
    ) -> None:
        self.wants_deltas = deltas
        self._line: Callable[[Record], str] = json_line if as_json else text_line
        self._slot = LogSlot(folder)
        self._file = RotatedFile(max_bytes, keep, max_age_s)
        self._folder = folder
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._held: dict[tuple[str, str, str], Held] = {}
        self._failing = False
        self._lost = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the logger of this process."""
        return cls(
            settings.state / "logs", as_json=settings.log_format == "json", deltas=settings.log_deltas,
            max_age_s=settings.retain_logs_days * 24 * 3600 or None,
        )  # fmt: skip

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Add the event's line to what the next flush writes."""
        if isinstance(payload, ResponsePayload | ReasoningPayload):
            self._hold(agent, payload, context)
            return
        self._settle(payload, context)
        self._add(agent, payload, context)

    def flush(self) -> None:
        """Write what waits, in one go; what the disk does not take waits on."""
        if not self._pending:
            return
        try:
            self._file.append(self._slot.path(), b"".join(self._pending))
        except OSError as error:
            self._fail(error)
        else:
            self._pending.clear()
            self._pending_bytes = 0
            self._recover()

    def close(self) -> None:
        """Write what waits and give the slot back."""
        self.flush()
        self._file.close()
        self._slot.release()

    def _add(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        line = self._line(record_of(agent, payload, context)).encode("utf-8", "backslashreplace") + b"\n"
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes > MAX_PENDING and not self._failing:
            self.flush()

    # --- pieces of text ---------------------------------------------------------------------------

    def _hold(self, agent: AgentFacts, payload: Piece, context: RunFacts) -> None:
        """Gather the piece: a line has a few hundred characters, and no secret is cut by its end."""
        key = (context.run_id, payload.type, payload.message_id)
        held = self._held[key][0] if key in self._held else HeldText(redact)
        text = held.add(payload.content)
        self._held[key] = (held, agent, payload, context)
        if text:
            self._add(agent, replace(payload, content=text), context)
        if len(self._held) > MAX_HELD:
            self._let_go(next(iter(self._held)))

    def _settle(self, payload: Payload, context: RunFacts) -> None:
        """Write the rest of a message before the event that makes it final; forget what is withdrawn."""
        for key in [key for key in self._held if key[0] == context.run_id]:
            if isinstance(payload, WithdrawnPayload):
                del self._held[key]
            elif isinstance(payload, EndPayload) or (isinstance(payload, MessagePayload) and _of(payload, key[2])):
                self._let_go(key)

    def _let_go(self, key: tuple[str, str, str]) -> None:
        held, agent, payload, context = self._held.pop(key)
        if text := held.rest():
            self._add(agent, replace(payload, content=text), context)

    # --- the disk ---------------------------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            log.warning(
                "the logger observer cannot write in %s (%s); it keeps the last lines and tries again",
                self._folder,
                error.strerror or type(error).__name__,
            )
        while self._pending_bytes > MAX_PENDING:
            self._pending_bytes -= len(self._pending.pop(0))
            self._lost += 1

    def _recover(self) -> None:
        if self._failing:
            log.warning("the logger observer writes again in %s; %d lines were lost", self._folder, self._lost)
            self._failing, self._lost = False, 0


def _of(message: MessagePayload, message_id: str) -> bool:
    return message.role == "assistant" and message.message_id in ("", message_id)
