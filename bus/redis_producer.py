"""Publishes wake-ups to a Redis broker with one command each, in the format that Celery writes.

Celery's own publishing of a message takes ten times as much CPU. ``post`` also saves the change to the relay's thread,
which waits for the interpreter's lock while the thread that accepted the run writes its response.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import uuid
from collections import deque
from typing import Any
from urllib.parse import parse_qs, urlsplit

import hiredis
from celery.utils.nodenames import anon_nodename

from bus.envelope import item_of
from bus.messages import RunAgentMessage
from bus.redis_wire import RedisAddress, packed
from config.redis.errors import RedisUnreachable
from config.redis.url import redis_form

CONNECT_TIMEOUT_S = 2.0
TIMEOUT_S = 5.0


class RedisProducer:
    """Adds messages to the Redis lists that Celery's workers read."""

    def __init__(self, url: str, prefix: str) -> None:
        """``prefix`` precedes the queue's name in its key. Nothing is connected before the first message."""
        self._address = RedisAddress.of(url)
        self._prefix = prefix
        self._origin = anon_nodename()
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._posted: deque[str] = deque()  # runs whose message was sent and whose reply is not read yet
        self._confirmed: set[str] = set()

    def post(self, message: RunAgentMessage, queue: str) -> None:
        """Send the message if that is possible without waiting; ``publish`` has to be called for it afterwards.

        May be called from any thread.
        """
        if not self._lock.acquire(blocking=False):
            return  # another thread sends, or waits for Redis
        try:
            if self._link is not None and self._link.send_now(self._command(message, queue)):
                self._posted.append(message.run_id)
        except OSError:
            self._drop()
        finally:
            self._lock.release()

    def publish(self, message: RunAgentMessage, queue: str) -> None:
        """Return once Redis has the message: send it, unless ``post`` did.

        A message whose reply was lost with the connection is sent again; a wake-up that comes twice does no harm.

        Raises:
            RedisUnreachable: Redis refuses the command.
            OSError: Redis does not answer.
        """
        with self._lock:
            if self._has_confirmed(message.run_id):
                return
            try:
                reply = self._asked(message, queue)
            except OSError:  # such as a connection that Redis closed while it was idle
                self._drop()
                reply = self._asked(message, queue)
            if isinstance(reply, Exception):
                raise RedisUnreachable(f"Redis at {self._address} refuses a wake-up: {reply}.")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _has_confirmed(self, run_id: str) -> bool:
        """Return whether Redis has the posted message of this run; replies come in the order of the messages."""
        try:
            while self._link is not None and run_id in self._posted:
                reply, first = self._link.read(), self._posted.popleft()
                if not isinstance(reply, Exception):
                    self._confirmed.add(first)
        except OSError:
            self._drop()
        is_confirmed = run_id in self._confirmed
        self._confirmed.discard(run_id)
        return is_confirmed

    def _asked(self, message: RunAgentMessage, queue: str) -> Any:
        if self._link is None:
            self._link = _Link(self._address)
        self._link.send(self._command(message, queue))
        reply = self._link.read()
        for first in self._posted:  # their replies come first
            if not isinstance(reply, Exception):
                self._confirmed.add(first)
            reply = self._link.read()
        self._posted.clear()
        return reply

    def _command(self, message: RunAgentMessage, queue: str) -> bytes:
        item = item_of(message, str(uuid.uuid4()), queue, self._origin)
        return packed(("LPUSH", f"{self._prefix}{queue}", item))

    def _drop(self) -> None:
        """Close the connection; what was posted and not confirmed is sent again by ``publish``."""
        link, self._link = self._link, None
        self._posted.clear()
        if link is not None:
            link.close()


class _Link:
    """One blocking connection."""

    def __init__(self, address: RedisAddress) -> None:
        self._socket = _connected(address)
        self._replies: Any = hiredis.Reader()
        try:
            for command in address.handshake():
                self.send(packed(command))
                reply = self.read()
                if isinstance(reply, Exception):
                    raise RedisUnreachable(f"Redis at {address} refuses the connection: {reply}.")
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_now(self, data: bytes) -> bool:
        """Send all or nothing without waiting, and return whether it was sent.

        Raises:
            OSError: the connection cannot be used any more.
        """
        if isinstance(self._socket, ssl.SSLSocket):
            return False  # it may have to read before it can write
        self._socket.settimeout(0)
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(TIMEOUT_S)
        if sent < len(data):
            raise OSError("Redis reads too slowly")
        return True

    def read(self) -> Any:
        """Return the next reply; an error reply as an exception object."""
        while (reply := self._replies.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("Redis closed the connection")
            self._replies.feed(data)
        return reply

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def _connected(address: RedisAddress) -> socket.socket:
    if address.path is not None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.connect(address.path)
    else:
        connection = socket.create_connection((address.host or "", address.port), CONNECT_TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if address.tls:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=address.host)
    connection.settimeout(TIMEOUT_S)
    return connection


def plain_redis(broker: str) -> str | None:
    """Return a broker's URL in redis-py's form; None where it has options, or is not one Redis server."""
    url = redis_form(broker)
    return url if url is not None and set(parse_qs(urlsplit(url).query)) <= {"db"} else None
