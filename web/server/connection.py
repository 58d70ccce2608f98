"""One client's connection, its phase, and how long that may last."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from gunicorn.http.unreader import IterUnreader

from web.server.client_socket import ClientSocket
from web.server.incoming import Incoming, decode_body

HEAD_S = 10.0
"""For a request's line and headers, from its first byte; a new connection that sends nothing has as long."""
BODY_S = 10.0
ANSWER_S = 30.0
"""For a body to arrive and an answer to be taken, and a second more for each ``LEAST_BYTES_S`` of it."""
LEAST_BYTES_S = 16 * 1024
LINGER_S = 2.0
LINGER_BYTES = 64 * 1024
"""How long, and for how much, a connection that ends is read, so that the client gets its answer before a reset."""


class Phase(StrEnum):
    """What a connection does."""

    IDLE = "idle"  # no byte of a request has arrived
    HEAD = "head"
    BODY = "body"
    ANSWERING = "answering"  # a thread has the request, or it waits for one
    SENDING = "sending"
    CLOSING = "closing"


class Connection:
    """What the worker knows of one client. Belongs to the poller's thread, and while it is ANSWERING to a request's."""

    # What gunicorn's thread worker asks of a connection.
    initialized = data_ready = True
    is_http2 = False

    def __init__(self, cfg: Any, sock: ClientSocket, client: Any, server: Any, now: float) -> None:
        self.sock = sock
        self.client = client
        self.server = server
        self.parser: OneRequest | None = None
        self.incoming = Incoming(cfg, client)
        self.is_kept = False
        """Whether another request may come behind the answer."""
        self.since = now
        """When the phase began, on the monotonic clock."""
        self.deadline = now
        self.phase = Phase.IDLE
        self.weight = 0
        """Bytes it was last counted with."""
        self.watched = 0
        """The events the poller looks for."""
        self.drained = 0

    def enter(self, phase: Phase, now: float, seconds: float) -> None:
        """Begin a phase, which may last so long; a phase it is in already goes on with its first limit."""
        if phase is not self.phase:
            self.phase, self.since = phase, now
            self.deadline = now + seconds

    def init(self) -> None:
        """Nothing is left to do when gunicorn's thread begins."""

    def close(self) -> None:
        """Close at once."""
        self.sock.close()

    @property
    def size(self) -> int:
        """Bytes held for it: what has arrived, a request that is answered, what it has not taken."""
        request = self.parser.size if self.parser is not None else 0
        return len(self.incoming) + request + self.sock.unsent_bytes


def transfer_s(count: int, least_s: float) -> float:
    """Return how long ``count`` bytes may take: ``least_s``, and longer in proportion to their number."""
    return least_s + count / LEAST_BYTES_S


class OneRequest:
    """What gunicorn's thread takes for a parser: the one request that is there, whole."""

    def __init__(self, request: Any, size: int) -> None:
        self._request = request
        self.size = size
        self.unreader = IterUnreader([])

    def __next__(self) -> Any:
        decode_body(self._request)
        return self._request

    def finish_body(self, deadline: float | None = None) -> bool:
        """Tell that the next request begins behind this one: its body was cut off whole."""
        return True
