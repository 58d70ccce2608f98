"""What clients raise on real sockets, and whether the request may have arrived then."""

from __future__ import annotations

import asyncio
import http.client
import smtplib
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from agents.tools.execution.ambiguous_failure import is_ambiguous
from tests.agents.tools import shop_server
from tests.agents.tools.shop_server import Shop

pytestmark = pytest.mark.parity

TIMEOUT_S = 0.3


def with_urllib(url: str) -> Any:
    return urllib.request.urlopen(urllib.request.Request(url, b"tea", method="POST"), timeout=TIMEOUT_S).read()


def with_http_client(url: str) -> Any:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=TIMEOUT_S)
    try:
        connection.request("POST", "/orders", b"tea")
        response = connection.getresponse()
        if response.status >= 400:
            raise urllib.error.HTTPError(url, response.status, response.reason, response.headers, None)
        return response.read()
    finally:
        connection.close()


def with_httpx(url: str) -> Any:
    import httpx

    return httpx.post(url, content=b"tea", timeout=TIMEOUT_S).raise_for_status()


def with_async_httpx(url: str) -> Any:
    import httpx

    async def post() -> Any:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            return (await client.post(url, content=b"tea")).raise_for_status()

    return asyncio.run(post())


def with_requests(url: str) -> Any:
    import requests

    return requests.post(url, data=b"tea", timeout=TIMEOUT_S).raise_for_status()


def with_aiohttp(url: str) -> Any:
    import aiohttp

    async def post() -> Any:
        timeout = aiohttp.ClientTimeout(sock_read=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
            session.post(url, data=b"tea") as response,
        ):
            return await response.read()

    return asyncio.run(post())


CLIENTS = [with_urllib, with_http_client, with_httpx, with_async_httpx, with_requests, with_aiohttp]
ARRIVED = [
    shop_server.close,
    shop_server.reset,
    shop_server.say_nothing,
    shop_server.answer_half,
    shop_server.answer_half_and_wait,
    shop_server.answer_nonsense,
    shop_server.answer_a_broken_chunk,
]


def raised_by(post: Callable[[str], Any], url: str) -> BaseException:
    with pytest.raises(Exception) as caught:  # each library has its own
        post(url)
    return caught.value


@pytest.mark.parametrize("behave", ARRIVED, ids=lambda behave: behave.__name__)
@pytest.mark.parametrize("post", CLIENTS, ids=lambda post: post.__name__)
def test_a_request_that_arrived_and_has_no_answer_is_open(
    post: Callable[[str], Any], behave: shop_server.Behaviour
) -> None:
    with Shop(behaves=[behave]) as shop:
        error = raised_by(post, shop.url)

        assert len(shop.arrived) == 1
        assert is_ambiguous(error), repr(error)


@pytest.mark.parametrize("code", [502, 504])
@pytest.mark.parametrize("post", CLIENTS, ids=lambda post: post.__name__)
def test_a_gateway_that_got_no_answer_leaves_it_open(post: Callable[[str], Any], code: int) -> None:
    with Shop(behaves=[shop_server.status(code)]) as shop:
        assert is_ambiguous(raised_by(post, shop.url))


@pytest.mark.parametrize("code", [400, 404, 409, 429, 500, 503])
@pytest.mark.parametrize("post", CLIENTS, ids=lambda post: post.__name__)
def test_an_answer_is_an_answer_though_it_says_no(post: Callable[[str], Any], code: int) -> None:
    with Shop(behaves=[shop_server.status(code)]) as shop:
        assert not is_ambiguous(raised_by(post, shop.url))


@pytest.mark.parametrize("post", CLIENTS, ids=lambda post: post.__name__)
def test_a_refused_connection_took_no_effect(post: Callable[[str], Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]

    assert not is_ambiguous(raised_by(post, f"http://127.0.0.1:{port}/orders"))


@pytest.mark.parametrize("post", CLIENTS, ids=lambda post: post.__name__)
def test_a_host_name_that_does_not_exist_took_no_effect(post: Callable[[str], Any]) -> None:
    assert not is_ambiguous(raised_by(post, "http://nowhere.invalid/orders"))


def test_another_error_on_the_way_out_closes_nothing() -> None:
    with Shop(behaves=[shop_server.close]) as shop:

        def post_and_stumble(url: str) -> None:
            try:
                with_urllib(url)
            except ConnectionError as error:
                raise ValueError(error.errno.real)  # type: ignore[union-attr]  # noqa: B904  # a tool's own mistake

        assert is_ambiguous(raised_by(post_and_stumble, shop.url))


def test_a_second_try_elsewhere_decides_where_the_first_never_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with Shop(behaves=[shop_server.close]) as shop:

        def post_to_either(url: str) -> None:
            try:
                with_urllib(f"http://127.0.0.1:{port}/orders")
            except OSError:
                with_urllib(url)

        assert is_ambiguous(raised_by(post_to_either, shop.url))


# --- what is no HTTP


def with_redis(port: int) -> Any:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    with redis.Redis(port=port, socket_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)) as client:
        return client.execute_command("INCR", "orders")


def with_smtplib(port: int) -> Any:
    with smtplib.SMTP("127.0.0.1", port, timeout=TIMEOUT_S) as client:
        return client.sendmail("shop@callboard.test", ["you@callboard.test"], "tea")


def with_asyncio(port: int) -> Any:
    async def post() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"tea")
        try:
            return await reader.readexactly(2)
        finally:
            writer.close()

    return asyncio.run(post())


OTHERS = [with_redis, with_smtplib, with_asyncio]


@contextmanager
def hanging_up(greeting: bytes) -> Iterator[int]:
    """A server that greets, reads something, and hangs up; yields its port."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                with client:
                    client.sendall(greeting)
                    client.recv(100)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("post", OTHERS, ids=lambda post: post.__name__)
def test_another_server_that_hangs_up_leaves_it_open(post: Callable[[int], Any]) -> None:
    with hanging_up(b"220 hello\r\n" if post is with_smtplib else b"") as port:
        error = raised_by_port(post, port)

    assert is_ambiguous(error), repr(error)


@pytest.mark.parametrize("post", OTHERS, ids=lambda post: post.__name__)
def test_another_server_that_is_not_there_took_no_effect(post: Callable[[int], Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]

    error = raised_by_port(post, port)

    assert not is_ambiguous(error), repr(error)


def test_a_silent_redis_leaves_it_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = raised_by_port(with_redis, silent.getsockname()[1])

    assert is_ambiguous(error), repr(error)


def test_a_program_that_does_not_end_leaves_it_open() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        subprocess.run([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, timeout=0.01, check=True)

    assert is_ambiguous(caught.value)


def test_a_program_that_failed_is_an_answer() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True)

    assert not is_ambiguous(caught.value)


UNANSWERED = "ReadTimeoutError RequestTimedOut ChannelDisconnected ApiConnectionError ConnectionClosedError".split()
NOT_SENT = "ConnectTimeout ConnectionTimeout PoolTimeout EndpointConnectionError".split()
ANSWERS = "ValidationError NoSuchOrder".split()


@pytest.mark.parametrize("name", [*UNANSWERED, *NOT_SENT, *ANSWERS])
def test_unknown_libraries_are_judged_by_their_names(name: str) -> None:
    assert is_ambiguous(type(name, (Exception,), {})()) is (name in UNANSWERED)


def raised_by_port(post: Callable[[int], Any], port: int) -> BaseException:
    with pytest.raises(Exception) as caught:  # each library has its own
        post(port)
    return caught.value
