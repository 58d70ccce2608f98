"""Writes events to log files that a person or a machine can read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from bus.identity.audit.anchors import AuditHead
from bus.payloads import EndPayload, MessagePayload, Payload, Record, TextPayload, WithdrawnPayload
from config.redaction import redact
from config.settings import Settings
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.logfile.record import HeldText, json_line, record_of, text_line
from observers.logfile.rotated_file import LogSlot, RotatedFile

log = logging.getLogger(__name__)

MAX_BYTES = 10 * 1024 * 1024
"""Bytes at which a file is rotated."""
KEEP = 5
"""Files kept per slot, including the current one."""
MAX_PENDING = 1024 * 1024
"""Bytes of lines held in memory while the disk fails; beyond it the oldest are dropped."""
MAX_GATHERED = 1000
"""Most messages whose deltas are gathered at a time."""

Held = tuple[HeldText, AgentFacts, TextPayload, RunFacts]


class SimpleLoggerObserver(AgentObserver):
    """Writes one line per event into ``logs/runs-<slot>.log`` of the state folder.

    Every process has a slot of its own. It writes whole messages by default, and deltas on request; secrets are
    redacted. While the disk fails, lines are kept in memory and one warning is logged.
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
        self._gathered: dict[tuple[str, str, str], Held] = {}
        self._is_failing = False
        self._lost = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(
            settings.state / "logs",
            as_json=settings.log_format == "json",
            deltas=settings.log_deltas,
            max_age_s=settings.retain_logs_days * 24 * 3600 or None,
        )

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Add the event's line to what the next flush writes."""
        if isinstance(payload, TextPayload):
            self._gather(agent, payload, context)
            return
        self._end_messages(payload, context)
        self._add(agent, payload, context)

    def on_audit_head(self, head: AuditHead) -> None:
        """Add a line that `./callboard audit verify` compares the audit log with."""
        self._append(head.json_line() if self._line is json_line else head.text_line())

    def flush(self) -> None:
        """Write the pending lines in one call; what the disk does not accept stays pending."""
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
        """Write the pending lines and release the slot."""
        self.flush()
        self._file.close()
        self._slot.release()

    def _add(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        self._append(self._line(record_of(agent, payload, context)))

    def _append(self, text: str) -> None:
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes > MAX_PENDING and not self._is_failing:
            self.flush()

    # --- pieces of text ---------------------------------------------------------------------------

    def _gather(self, agent: AgentFacts, payload: TextPayload, context: RunFacts) -> None:
        """Gather the piece: a line has a few hundred characters, and its end splits no secret."""
        key = (context.run_id, payload.type, payload.message_id)
        held = self._gathered[key][0] if key in self._gathered else HeldText(redact)
        text = held.add(payload.content)
        self._gathered[key] = (held, agent, payload, context)
        if text:
            self._add(agent, replace(payload, content=text), context)
        if len(self._gathered) > MAX_GATHERED:
            self._write_rest(next(iter(self._gathered)))

    def _end_messages(self, payload: Payload, context: RunFacts) -> None:
        """Write the rest of a message before the event that makes it final; forget what is withdrawn."""
        for key in [key for key in self._gathered if key[0] == context.run_id]:
            if isinstance(payload, WithdrawnPayload):
                del self._gathered[key]
            elif isinstance(payload, EndPayload) or (isinstance(payload, MessagePayload) and _of(payload, key[2])):
                self._write_rest(key)

    def _write_rest(self, key: tuple[str, str, str]) -> None:
        held, agent, payload, context = self._gathered.pop(key)
        if text := held.rest():
            self._add(agent, replace(payload, content=text), context)

    # --- the disk ---------------------------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            text = "the logger observer cannot write in %s (%s); it keeps the last lines and tries again"
            log.warning(text, self._folder, error.strerror or type(error).__name__)
        while self._pending_bytes > MAX_PENDING:
            self._pending_bytes -= len(self._pending.pop(0))
            self._lost += 1

    def _recover(self) -> None:
        if self._is_failing:
            log.warning("the logger observer writes again in %s; %d lines were lost", self._folder, self._lost)
            self._is_failing, self._lost = False, 0


def _of(message: MessagePayload, message_id: str) -> bool:
    return message.role == "assistant" and message.message_id in ("", message_id)
