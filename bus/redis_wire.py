"""A Redis connection on the event loop: pipelines with ordered replies, and published messages as callbacks.

redis-py's asyncio client costs about 150 µs a pipeline, most of the cost of a streamed token. This client does what
that path needs only: one write a batch, hiredis as parser, RESP2.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

from config.errors import SettingInvalid
from config.redis.errors import RedisUnreachable
from config.redis.server import find_running
from config.settings import Settings

Command = tuple[str | bytes | int, ...]
# The library's type annotation is wrong: it names tuples of one element.
_packed: Callable[[Command], bytes] = cast(Any, hiredis.pack_command)
CONNECT_TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RedisAddress:
    """The parts of a Redis URL."""

    host: str | None
    port: int
    path: str | None
    db: int
    username: str | None
    password: str | None
    tls: bool

    @classmethod
    def of(cls, url: str) -> RedisAddress:
        """Return the address in ``redis://``, ``rediss://`` or ``unix://`` form.

        Raises:
            SettingInvalid: it is none of these.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            raise SettingInvalid(
                f"'{parts.scheme or url[:20]}' is not a Redis URL; use redis://host:6379/0, rediss://… or unix:///path."
            )
        is_unix = parts.scheme == "unix"
        number = parse_qs(parts.query).get("db", ["0"])[0] if is_unix else (parts.path.strip("/") or "0")
        try:
            db, port = int(number), parts.port or 6379
        except ValueError as error:
            raise SettingInvalid(f"the Redis URL's database or port is not a number ({error}).") from error
        return cls(
            host=None if is_unix else (parts.hostname or "127.0.0.1"),
            port=port,
            path=unquote(parts.path) if is_unix else None,
            db=db,
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            tls=parts.scheme == "rediss",
        )

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}/{self.db}"

    def handshake(self) -> list[Command]:
        """Return the first commands of a new connection."""
        words: list[Command] = []
        if self.password is not None:
            words.append(("AUTH", self.username, self.password) if self.username else ("AUTH", self.password))
        if self.db:
            words.append(("SELECT", self.db))
        return words


class RedisWire(asyncio.Protocol):
    """One connection, used on the loop's thread only."""

    def __init__(self, on_message: Callable[[str, bytes], None] | None, on_lost: Callable[[], None]) -> None:
        self._reader: Any = hiredis.Reader()
        self._on_message = on_message
        self._on_lost = on_lost
        self._waiting: deque[tuple[int, list[Any], asyncio.Future[list[Any]]]] = deque()
        self._transport: asyncio.WriteTransport | None = None
        self._confirmations: dict[bytes, asyncio.Future[None]] = {}

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, commands: Sequence[Command]) -> asyncio.Future[list[Any]]:
        """Write all commands at once; the future's result has their replies, error replies as exception objects."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            future.set_exception(ConnectionError("the Redis connection is closed"))
            return future
        self._waiting.append((len(commands), [], future))
        self._transport.write(b"".join(map(_packed, commands)))
        return future

    async def subscribe(self, channel: str) -> None:
        """Subscribe to a channel, and return when Redis has confirmed it."""
        await asyncio.shield(self._switch(b"subscribe", channel))  # several callers may await one confirmation

    def unsubscribe(self, channel: str) -> asyncio.Future[None]:
        return self._switch(b"unsubscribe", channel)

    async def ping(self) -> None:
        """Return when Redis has answered a PING; for a subscribed connection."""
        await asyncio.shield(self._confirmed(b"pong ", (b"PING",)))

    def close(self) -> None:
        """Close the connection; ``on_lost`` is not called."""
        self._on_lost = lambda: None
        if self._transport is not None:
            self._transport.abort()  # close() would wait until a stuck peer has read everything

    def _switch(self, verb: bytes, channel: str) -> asyncio.Future[None]:
        name = channel.encode()
        return self._confirmed(verb + b" " + name, (verb, name))

    def _confirmed(self, answer: bytes, command: Command) -> asyncio.Future[None]:
        """Send the command, and return a future that Redis's confirmation resolves; several callers may share it."""
        future = self._confirmations.get(answer)
        if future is not None and not future.done():
            return future
        future = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            future.set_exception(ConnectionError("the Redis connection is closed"))
            future.exception()  # marks it as retrieved: a caller that unsubscribes does not await it
            return future
        self._confirmations[answer] = future
        self._transport.write(_packed(command))
        return future

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while True:
            reply = self._reader.gets()
            if reply is False:
                return
            if self._on_message is not None and type(reply) is list:
                self._take_push(reply)
            elif self._on_message is not None and reply == b"PONG":  # the reply without any subscribed channel
                self._take_push([b"pong", b""])
            elif self._waiting:
                self._take_reply(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        lost = ConnectionError("the Redis connection was lost")
        for future in [f for _, _, f in self._waiting] + list(self._confirmations.values()):
            if not future.done():
                future.set_exception(lost)
                future.exception()  # marks it as retrieved, so that asyncio does not warn about it
        self._waiting.clear()
        self._confirmations.clear()
        self._on_lost()

    def _take_reply(self, reply: Any) -> None:
        reply_count, replies, future = self._waiting[0]
        replies.append(reply)
        if len(replies) == reply_count:
            self._waiting.popleft()
            if not future.done():
                future.set_result(replies)

    def _take_push(self, reply: list[Any]) -> None:
        kind, channel = reply[0], reply[1]
        if kind == b"message":
            assert self._on_message is not None
            self._on_message(channel.decode(), reply[2])
            return
        future = self._confirmations.pop(kind + b" " + (channel or b""), None)
        if future is not None and not future.done():
            future.set_result(None)


async def connect(
    url: str, *, on_message: Callable[[str, bytes], None] | None = None, on_lost: Callable[[], None] = lambda: None
) -> RedisWire:
    """Return an open connection, authenticated and with the URL's database selected.

    Raises:
        RedisUnreachable: no server answers, or it refuses the connection.
    """
    address = RedisAddress.of(url)
    wire = RedisWire(None, lambda: None)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if address.path is not None:
                await loop.create_unix_connection(lambda: wire, address.path)
            else:
                context = ssl.create_default_context() if address.tls else None
                await loop.create_connection(lambda: wire, address.host or "", address.port, ssl=context)
            replies = await wire.send([*address.handshake(), ("PING",)])
    except (OSError, TimeoutError) as error:
        wire.close()
        raise RedisUnreachable(
            f"Redis at {address} does not answer ({type(error).__name__}); start it, or correct CALLBOARD_REDIS_URL."
        ) from error
    except asyncio.CancelledError:  # the caller has a shorter timeout
        wire.close()
        raise
    for reply in replies:
        if isinstance(reply, Exception):
            wire.close()
            raise RedisUnreachable(f"Redis at {address} refuses the connection: {reply}. Correct CALLBOARD_REDIS_URL.")
    wire._on_message, wire._on_lost = on_message, on_lost
    return wire


# --- the Redis of the state folder


def with_running_redis(settings: Settings) -> Settings:
    """Return the settings; if they name no Redis, with the state folder's own if it answers."""
    running = find_running(settings.state) if settings.redis_url is None else None
    return settings if running is None else settings.model_copy(update={"redis_url": running})
