"""Splits a response's bytes into the events that a wire reads: an event stream's, or one a line."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agents.models.errors import ModelFailed

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Longest event that a provider may send; a longer one is an error."""
MAX_STREAM_BYTES = 512 * 1024 * 1024
"""Longest answer, decompressed; a longer one is an error."""
_JUNK_BYTES = 2000
_BOM = b"\xef\xbb\xbf"


class Lines(ABC):
    """Splits a stream of bytes into lines, of which a subclass makes events."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._total = 0
        self._begun = False
        self.seen_event = False
        """Whether any line of an event was seen."""
        self.junk = b""
        """The beginning of a body without events, such as an error page or JSON."""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that are complete now.

        Raises:
            ModelFailed: an event or the whole answer is too long.
        """
        self._total += len(piece)
        if len(piece) > MAX_EVENT_BYTES or self._total > MAX_STREAM_BYTES:
            raise _too_much()
        if self._held:
            block = self._joined(piece)
            if block is None:
                return []
        else:
            block = piece
        if b"\r" in block:
            block = _without_returns(block)
        lines = block.split(b"\n")
        rest = lines.pop()
        if not self._begun and lines:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        self._held = [rest] if rest else []
        self._held_bytes = len(rest)
        events = self._events(lines)
        if self._held_bytes > MAX_EVENT_BYTES:
            raise _too_much()
        return events

    def end(self) -> list[bytes]:
        """Return the last event if only the end of its line was missing when the stream ended."""
        return self.feed(b"\n") if self._held else []

    @abstractmethod
    def _events(self, lines: list[bytes]) -> list[bytes]:
        """Return the data of the events that these lines complete."""

    def _joined(self, piece: bytes) -> bytes | None:
        """Return the line that was held with the piece that ends it, or None where it does not end: joined once."""
        ended = b"\n" in piece or b"\r" in piece or self._held[-1].endswith(b"\r")
        self._held.append(piece)
        self._held_bytes += len(piece)
        if not ended and self._held_bytes > MAX_EVENT_BYTES:
            raise _too_much()
        return b"".join(self._held) if ended else None

    def _other(self, line: bytes) -> None:
        if len(self.junk) < _JUNK_BYTES:
            self.junk = (self.junk + line + b"\n")[:_JUNK_BYTES]


class EventLines(Lines):
    """Reads the ``data`` of an event stream's events (WHATWG HTML, 9.2.6); other fields are dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._data: list[bytes] = []
        self._size = 0

    def end(self) -> list[bytes]:
        """Return the last event if only its blank line was missing when the stream ended."""
        return self.feed(b"\n\n") if self._held or self._data else []

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(self._take())
            elif line.startswith(b"data:"):
                data = line[6:] if line[5:6] == b" " else line[5:]
                if self._data and _complete(self._data[-1]) and data[:1] in (b"{", b"["):
                    events.append(self._take())
                self._hold(data)
            elif line.startswith((b":", b"event", b"id", b"retry", b"data")):
                self.seen_event = True
            else:
                self._other(line)
        return events

    def _hold(self, data: bytes) -> None:
        self.seen_event = True
        self._data.append(data)
        self._size += len(data) + 1  # an empty line takes memory, too
        if self._size > MAX_EVENT_BYTES:
            raise _too_much()

    def _take(self) -> bytes:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        self._size = 0
        return data


class ObjectLines(Lines):
    """Reads a stream of JSON objects, one a line (NDJSON); any other line is no event."""

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = [line for line in lines if line.startswith(b"{")]
        if events:
            self.seen_event = True
        if len(events) < len(lines):
            for line in lines:
                if line and not line.startswith(b"{"):
                    self._other(line)
        return events


def _without_returns(block: bytes) -> bytes:
    """Make every line end a newline; a return at the very end waits for its newline."""
    held = b"\r" if block.endswith(b"\r") else b""
    return block.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held


def _too_much() -> ModelFailed:
    limit = f"{MAX_EVENT_BYTES // 1024 // 1024} MiB"
    return ModelFailed(f"the provider sent more than {limit} in one event, or without end; it was not read further.")


def _complete(data: bytes) -> bool:
    """Return whether a line is a complete JSON object: some servers omit the blank line between events."""
    return data[:1] == b"{" and data[-1:] == b"}"
