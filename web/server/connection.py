"""One client's connection, its phase and the phase's deadline."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gunicorn.http.unreader import IterUnreader

from web.server.incoming import Incoming, decode_body, named_trace_id
from web.server.sockets import ClientSocket

HEAD_S = 10.0
"""For a request's line and headers, from the first byte; also for the first byte of a new connection."""
BODY_S = 10.0
ANSWER_S = 30.0
"""For receiving a body and sending a response, plus a second for each ``LEAST_BYTES_S`` of it."""
LEAST_BYTES_S = 16 * 1024
LINGER_S = 2.0
LINGER_BYTES = 64 * 1024
"""How long, and how many bytes, a closing connection is read, so that the client gets its response before a reset."""


class Phase(StrEnum):
    """The phase of a connection."""

    IDLE = "idle"  # no byte of a request has arrived
    HEAD = "head"
    BODY = "body"
    ANSWERING = "answering"  # a thread has the request, or it waits for one
    SENDING = "sending"
    CLOSING = "closing"


@dataclass(eq=False)
class Connection:
    """One client's state. Owned by the poller's thread, and while ANSWERING by the request's thread."""

    # Attributes that gunicorn's thread worker reads.
    initialized = data_ready = True
    is_http2 = False

    sock: ClientSocket
    client: Any
    server: Any
    incoming: Incoming
    since: float
    """When the phase began, on the monotonic clock."""
    deadline: float
    parser: OneRequest | None = None
    is_kept: bool = False
    """Whether the connection stays open after the response."""
    phase: Phase = Phase.IDLE
    weight: int = 0
    """Bytes it was last counted with."""
    watched: int = 0
    """The events the poller waits for."""
    drained: int = 0

    def enter(self, phase: Phase, now: float, seconds: float) -> None:
        """Enter a phase with a time limit; re-entering the current phase keeps its deadline."""
        if phase is not self.phase:
            self.phase, self.since = phase, now
            self.deadline = now + seconds

    def init(self) -> None:
        """Do nothing; gunicorn calls it on the request's thread."""

    def close(self) -> None:
        self.sock.close()

    @property
    def size(self) -> int:
        """Bytes held for it: received data, the request in progress, unsent data."""
        request = self.parser.size if self.parser is not None else 0
        return len(self.incoming) + request + self.sock.unsent_bytes


def transfer_s(count: int, least_s: float) -> float:
    """Return how long a transfer of ``count`` bytes may take: ``least_s`` plus a time proportional to ``count``."""
    return least_s + count / LEAST_BYTES_S


class OneRequest:
    """A parser for gunicorn's thread that yields one complete request."""

    def __init__(self, request: Any, size: int) -> None:
        self._request = request
        self.size = size
        self.unreader = IterUnreader([])

    @property
    def trace_id(self) -> str | None:
        """The trace id that the request names."""
        return named_trace_id(self._request)

    def __next__(self) -> Any:
        decode_body(self._request)
        return self._request

    def finish_body(self, deadline: float | None = None) -> bool:
        """Return True: the body was read completely."""
        return True
