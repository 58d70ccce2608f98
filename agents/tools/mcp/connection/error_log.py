"""What a server writes to its standard error: in this process's log, redacted, and no more than a person reads."""

from __future__ import annotations

import asyncio
import logging
import time

from config.redaction import redact_start

log = logging.getLogger(__name__)

MAX_LINE = 500
"""Characters of one line in the log."""
MAX_LINES, WINDOW_S = 60, 60.0
"""Lines of one server in the log, and in how many seconds."""
TAIL_BYTES = 4000
"""Bytes of the end that are kept for the report of its failure."""


class ErrorLog(asyncio.Protocol):
    """Logs the lines of a pipe, and keeps its end."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._tail = bytearray()
        self._line = bytearray()
        self._window_s, self._logged, self._left_out = 0.0, 0, 0

    @property
    def tail(self) -> str:
        """The end of what was written, redacted."""
        text = bytes(self._tail).decode("utf-8", "replace").strip()
        return redact_start(text, len(text))

    def data_received(self, data: bytes) -> None:
        self._tail += data[-TAIL_BYTES:]
        del self._tail[:-TAIL_BYTES]
        self._line += data
        *lines, rest = bytes(self._line[-64 * 1024 :]).split(b"\n")
        self._line = bytearray(rest[-4 * MAX_LINE :])
        for line in lines:
            self._add(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._add(bytes(self._line))
        self._note_left_out()

    def _add(self, line: bytes) -> None:
        if not line.strip():
            return
        now_s = time.monotonic()
        if now_s - self._window_s > WINDOW_S:
            self._note_left_out()
            self._window_s, self._logged = now_s, 0
        if self._logged >= MAX_LINES:
            self._left_out += 1
            return
        self._logged += 1
        text = line[: 4 * MAX_LINE].decode("utf-8", "replace").rstrip("\r")
        log.info("the MCP server %s wrote: %s", self._server, redact_start(text, MAX_LINE))

    def _note_left_out(self) -> None:
        if self._left_out:
            log.info("the MCP server %s wrote %d more lines, which are not logged", self._server, self._left_out)
        self._left_out = 0
