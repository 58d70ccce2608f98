"""Our own Redis connection against a real Redis: sockets and TCP, passwords, databases, messages, losses."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
import redis

from bus.loop import ProcessLoop
from bus.redis_wire import RedisAddress, connect
from config.errors import SettingInvalid
from config.redis.errors import RedisUnreachable
from tests.backends import RedisServer
from tests.ports import free_port


@pytest.fixture
def client(own_redis: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_redis.url) as opened:
        yield opened


@pytest.fixture
def tcp(client: redis.Redis) -> str:
    """The host and port where the test's Redis listens too."""
    port = free_port()
    client.config_set("port", port)
    return f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("url", "expected", "handshake"),
    [
        ("redis://", "127.0.0.1:6379/0", []),
        ("redis://host:7000/3", "host:7000/3", [("SELECT", 3)]),
        ("redis://:p%40ss@host/1", "host:6379/1", [("AUTH", "p@ss"), ("SELECT", 1)]),
        ("rediss://me:secret@[::1]:7/0", "::1:7/0", [("AUTH", "me", "secret")]),
        ("unix:///run/a%20b.sock?db=2", "/run/a b.sock", [("SELECT", 2)]),
        ("unix://me:secret@/run/r.sock", "/run/r.sock", [("AUTH", "me", "secret")]),
    ],
)
def test_an_url_says_where_to_connect_and_what_to_say_first(url, expected, handshake):
    address = RedisAddress.of(url)

    assert str(address) == expected
    assert address.handshake() == handshake


@pytest.mark.parametrize(
    "url", ["http://host", "host:6379", "", "redis://host:port", "redis://host/one", "unix:///s?db=x"]
)
def test_what_is_no_redis_url_is_refused(url):
    with pytest.raises(SettingInvalid):
        RedisAddress.of(url)


def test_replies_come_in_the_order_of_the_commands(redis_url, deployment, loop: ProcessLoop):
    async def play() -> list[list[object]]:
        wire = await connect(redis_url)
        first = wire.send([("SET", deployment, b"\x00\xff"), ("GET", deployment)])
        second = wire.send([("STRLEN", deployment), ("NONSENSE",), ("DEL", deployment)])
        replies = [await first, await second]
        wire.close()
        return replies

    first, (length, error, deleted) = loop.run(play(), 20)

    assert first == [b"OK", b"\x00\xff"]
    assert (length, deleted) == (2, 1)
    assert isinstance(error, Exception)


def test_the_database_in_the_url_is_the_one_used(own_redis, client, tcp, loop: ProcessLoop):
    async def store(url: str, name: str) -> None:
        wire = await connect(url)
        await wire.send([("SET", name, "here")])
        wire.close()

    loop.run(store(own_redis.url.replace("db=0", "db=3"), "by_socket"), 20)
    loop.run(store(f"redis://{tcp}/3", "by_tcp"), 20)

    client.select(3)
    assert (client.get("by_socket"), client.get("by_tcp")) == (b"here", b"here")


def test_a_password_is_said_and_a_wrong_one_is_named_but_not_shown(own_redis, client, tcp, loop: ProcessLoop):
    client.config_set("requirepass", "s3cret/@")

    async def ping(url: str) -> object:
        wire = await connect(url)
        (reply,) = await wire.send([("PING",)])
        wire.close()
        return reply

    assert loop.run(ping(f"redis://:s3cret%2F%40@{tcp}/0"), 20) == b"PONG"
    with pytest.raises(RedisUnreachable, match="refuses the connection") as error:
        loop.run(ping(f"redis://:not-this-one@{tcp}/0"), 20)
    assert "not-this-one" not in str(error.value)
    with pytest.raises(RedisUnreachable, match="CALLBOARD_REDIS_URL"):
        loop.run(ping(f"redis://{tcp}/0"), 20)


@pytest.mark.parity
@pytest.mark.parametrize("location", ["unix:///nowhere/redis.sock", "tcp"])
def test_an_unreachable_server_is_one_sentence(location, loop: ProcessLoop):
    url = f"redis://127.0.0.1:{free_port()}/0" if location == "tcp" else location
    lost: list[str] = []

    with pytest.raises(RedisUnreachable, match="does not answer"):
        loop.run(connect(url, on_lost=lambda: lost.append("x")), 20)

    assert lost == []


def test_a_database_that_is_not_there_is_refused(own_redis, loop: ProcessLoop):
    with pytest.raises(RedisUnreachable, match="refuses the connection"):
        loop.run(connect(own_redis.url.replace("db=0", "db=9999")), 20)


def test_messages_come_from_when_the_subscription_is_confirmed_until_it_ends(redis_url, deployment, loop: ProcessLoop):
    received: list[tuple[str, bytes]] = []

    async def play() -> None:
        listener = await connect(redis_url, on_message=lambda channel, body: received.append((channel, body)))
        speaker = await connect(redis_url)
        await asyncio.gather(listener.subscribe(f"{deployment}:a"), listener.subscribe(f"{deployment}:a"))
        await listener.subscribe(f"{deployment}:b")
        await speaker.send([("PUBLISH", f"{deployment}:a", "1"), ("PUBLISH", f"{deployment}:b", b"\xff")])
        await listener.unsubscribe(f"{deployment}:a")
        await speaker.send([("PUBLISH", f"{deployment}:a", "2"), ("PUBLISH", f"{deployment}:b", "3")])
        await listener.unsubscribe(f"{deployment}:b")
        listener.close()
        speaker.close()

    loop.run(play(), 20)

    assert received == [(f"{deployment}:a", b"1"), (f"{deployment}:b", b"\xff"), (f"{deployment}:b", b"3")]


def test_a_lost_connection_fails_what_waits_and_says_so_once(own_redis, client, loop: ProcessLoop):
    lost: list[str] = []

    async def play() -> list[BaseException | None]:
        gone = asyncio.Event()

        def on_lost() -> None:
            lost.append("x")
            gone.set()

        wire = await connect(own_redis.url, on_lost=on_lost)
        waiting = wire.send([("BLPOP", "nothing", 0)])
        await loop.read(lambda: client.client_kill_filter(_type="normal", skipme=True))
        await gone.wait()
        after = wire.send([("PING",)])
        return [waiting.exception(), after.exception()]

    error = loop.run(play(), 20)

    assert [type(each) for each in error] == [ConnectionError, ConnectionError]
    assert lost == ["x"]


def test_closing_is_no_loss(redis_url, loop: ProcessLoop):
    lost: list[str] = []

    async def play() -> bool:
        wire = await connect(redis_url, on_lost=lambda: lost.append("x"))
        wire.close()
        await asyncio.sleep(0.01)
        return wire.is_open

    assert loop.run(play(), 20) is False
    assert lost == []


def test_a_pulse_is_answered_with_and_without_channels(redis_url: str, deployment: str, loop: ProcessLoop):
    async def play() -> None:
        wire = await connect(redis_url, on_message=lambda channel, body: None)
        async with asyncio.timeout(20):
            await wire.ping()
            await wire.subscribe(deployment)
            await asyncio.gather(wire.ping(), wire.ping())
            await wire.unsubscribe(deployment)
            await wire.ping()
        wire.close()

    loop.run(play(), 30)


def test_closing_does_not_wait_for_a_peer_that_is_stuck(own_redis: RedisServer, loop: ProcessLoop):
    process = own_redis._running.process

    async def play() -> None:
        wire = await connect(own_redis.url)
        process.send_signal(signal.SIGSTOP)
        answer = wire.send([("SET", "k", "x" * 10_000_000)])  # more than the sockets between us hold
        wire.close()
        async with asyncio.timeout(20):
            with pytest.raises(ConnectionError):
                await answer

    try:
        loop.run(play(), 30)
    finally:
        process.send_signal(signal.SIGCONT)
