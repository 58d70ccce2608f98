"""Requests over real sockets: which address is asked, what a redirect takes along, and where reading stops."""

import asyncio
import gzip
import ssl
import time
import zlib

import pytest
from cryptography import x509

from config.egress.errors import HostNotAllowed, HostUnreachable, RedirectRefused, UrlRefused
from config.egress.exchange import HttpAnswer, Limits
from config.egress.fetch import Fetcher
from config.egress.informational import MOST
from config.egress.lookup import Resolver
from config.egress.policy import EgressPolicy, allowed_in
from config.egress.request import Outgoing
from config.egress.target import parse_target
from config.errors import ToolCutOff
from config.tracing import trace_id_of, traced
from tests.certificates import Authority
from tests.config.egress.peer import Peer, says, sends
from tests.ports import free_port

pytestmark = pytest.mark.parity


@pytest.fixture
def unused_port() -> int:
    return free_port()


CREDENTIALS = (("Authorization", "Bearer a"), ("Cookie", "b=c"), ("X-Api-Key", "d"), ("Accept", "text/plain"))
HEAD = b"HTTP/1.1 200 OK\r\n"


class Names:
    """A name server that answers each question anew; a name has ``127.0.0.1`` unless a test says otherwise."""

    def __init__(self, **answers: list[str]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(addresses) for name, addresses in answers.items()}

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        left = self._answers.get(host, ["127.0.0.1"])
        return [left.pop(0) if len(left) > 1 else left[0]]


async def fetch(
    url: str,
    method: str = "GET",
    *,
    names: Resolver | None = None,
    allowed: str = "*, 127.0.0.0/8",
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    body: bytes = b"",
) -> HttpAnswer:
    fetcher = Fetcher(
        policy=EgressPolicy(allowed=allowed_in(allowed)),
        resolver=names or Names(),
        limits=limits or Limits(total_s=5),
        tls=tls,
    )
    return await fetcher.fetch(Outgoing(method=method, target=parse_target(url), headers=CREDENTIALS, body=body))


def test_the_request_arrives_with_the_name_and_the_path_as_they_were_checked():
    async def run() -> None:
        async with Peer(says(b"done", X_Kind="shop")) as shop:
            answer = await fetch(shop.url("shop.example", "/a%2Fb/../c?d=%20"), "POST", body=b"{}")

            assert (answer.status, answer.body, answer.headers["x-kind"], answer.notes) == (200, b"done", "shop", ())
            (request,) = shop.asked
            assert (request.method, request.path, request.body) == ("POST", "/a%2Fb/../c?d=%20", b"{}")
            assert request.headers["host"] == f"shop.example:{shop.port}"
            assert request.headers["authorization"] == "Bearer a"

    asyncio.run(run())


def test_a_second_answer_of_the_name_server_has_no_effect():
    async def run() -> None:
        port = free_port()
        async with Peer(says(b"public"), "127.0.0.2", port) as public, Peer(says(b"private"), port=port) as private:
            names = Names(rebinding_example=["127.0.0.2", "127.0.0.1"])

            answer = await fetch(public.url("rebinding.example"), names=names, allowed="*, 127.0.0.2")

            assert (answer.body, names.asked, private.asked) == (b"public", ["rebinding.example"], [])

    asyncio.run(run())


def test_a_redirect_to_the_same_name_is_checked_anew():
    async def run() -> None:
        again, port = says(status=302, Location="/again"), free_port()
        async with Peer(again, "127.0.0.2", port) as public, Peer(says(b"private"), port=port) as private:
            names = Names(rebinding_example=["127.0.0.2", "127.0.0.1"])

            with pytest.raises(HostNotAllowed):
                await fetch(public.url("rebinding.example"), names=names, allowed="*, 127.0.0.2")

            assert (len(public.asked), private.asked) == (1, [])

    asyncio.run(run())


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "http://inside.example:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "http://u@shop.example/",
        "//2130706433:{port}/",
    ],
)
def test_a_redirect_to_what_may_not_be_asked_is_refused(location):
    async def run() -> None:
        async with Peer(says(b"private")) as private:
            there = location.format(port=private.port)
            async with Peer(says(status=302, Location=there), host="127.0.0.2") as public:
                names = Names(shop_example=["127.0.0.2"])

                with pytest.raises((HostNotAllowed, UrlRefused)):
                    await fetch(public.url("shop.example"), names=names, allowed="*, 127.0.0.2")

                assert private.asked == []

    asyncio.run(run())


def test_another_origin_gets_no_credentials():
    async def run() -> None:
        async with Peer(says(b"there")) as other, Peer(says()) as shop, Peer(says()) as start:
            shop.script = says(status=302, Location=other.url("other.example"))
            start.script = says(status=301, Location=shop.url("shop.example"))
            answer = await fetch(start.url("start.example"))

            assert (answer.body, answer.url) == (b"there", other.url("other.example"))
            assert start.asked[0].headers["authorization"] == "Bearer a"
            for request in (*shop.asked, *other.asked):
                assert not {"authorization", "cookie", "x-api-key"} & set(request.headers)
                assert request.headers["accept"] == "text/plain"

    asyncio.run(run())


def test_a_redirect_of_the_same_origin_keeps_credentials_and_body():
    async def run() -> None:
        async with Peer(says()) as shop:

            async def script(request, writer):
                moved = says(status=307, Location="/new")
                await (says() if request.path == "/new" else moved)(request, writer)

            shop.script = script
            answer = await fetch(shop.url("shop.example"), "PUT", body=b"{}")

            assert (answer.status, [request.method for request in shop.asked]) == (200, ["PUT", "PUT"])
            assert shop.asked[1].body == b"{}"
            assert shop.asked[1].headers["cookie"] == "b=c"

    asyncio.run(run())


def test_a_loop_of_redirects_ends():
    async def run() -> None:
        async with Peer(says(status=302, Location="/")) as shop:
            with pytest.raises(RedirectRefused, match="more than 5"):
                await fetch(shop.url("shop.example"))

            assert len(shop.asked) == 6

    asyncio.run(run())


@pytest.mark.parametrize("location", ["http://127.0.0.1/", "file:///etc/passwd", "http://closed.example:{port}/"])
def test_an_order_keeps_its_answer_when_the_redirect_behind_it_fails(location, unused_port):
    async def run() -> None:
        async with Peer(says(status=303, Location=location.format(port=unused_port)), host="127.0.0.2") as shop:
            names = Names(shop_example=["127.0.0.2"], closed_example=["127.0.0.2"])

            answer = await fetch(shop.url("shop.example"), "POST", names=names, allowed="*, 127.0.0.2", body=b"{}")

            assert answer.status == 303
            assert "was not followed" in answer.notes[0]

    asyncio.run(run())


def test_cookies_of_an_answer_are_not_kept():
    async def run() -> None:
        async with Peer(says(status=302, Location="/next", Set_Cookie="evil=1")) as shop:
            with pytest.raises(RedirectRefused):
                await fetch(shop.url("shop.example"))

            assert {request.headers["cookie"] for request in shop.asked} == {"b=c"}

    asyncio.run(run())


def test_proxies_of_the_environment_are_not_asked(monkeypatch, tmp_path):
    async def run() -> None:
        async with Peer(says(b"proxy")) as proxy, Peer(says(b"done")) as shop:
            for name in ("http_proxy", "https_proxy", "all_proxy"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
                monkeypatch.setenv(name.upper(), f"http://127.0.0.1:{proxy.port}")
            answer = await fetch(shop.url("shop.example"))

            assert (answer.body, proxy.asked) == (b"done", [])

    asyncio.run(run())


def test_tls_is_checked_by_the_name_that_was_asked(tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("shop.example", x509.DNSName("shop.example"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    client = ssl.create_default_context(cafile=str(authority.certificate))

    async def run() -> None:
        async with Peer(says(b"done"), tls=server) as shop:
            answer = await fetch(shop.url("shop.example"), tls=client)

            assert (answer.body, shop.asked[0].server_name) == (b"done", "shop.example")
            with pytest.raises(HostUnreachable, match="certificate"):
                await fetch(shop.url("other.example"), tls=client)
            with pytest.raises(HostUnreachable, match="certificate"):
                await fetch(shop.url("127.0.0.1"), tls=client)

    asyncio.run(run())


def test_the_next_address_is_asked_where_one_accepts_no_connection():
    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.1"]

    async def run() -> None:
        async with Peer(says(b"done")) as shop:
            fetcher = Fetcher(policy=EgressPolicy(allowed=allowed_in("*, 127.0.0.0/8")), resolver=both)
            target = parse_target(shop.url("shop.example"))

            answer = await fetcher.fetch(Outgoing(method="POST", target=target))

            assert (answer.body, len(shop.asked)) == (b"done", 1)

    asyncio.run(run())


def test_a_closed_port_is_told_without_the_address(unused_port):
    with pytest.raises(HostUnreachable, match=r"^shop.example accepts no connection") as caught:
        asyncio.run(fetch(f"http://shop.example:{unused_port}/"))

    assert "127.0.0.1" not in str(caught.value)


def test_a_name_that_does_not_exist_is_told():
    async def nothing(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(HostUnreachable, match=r"there is no host shop\.example"):
        asyncio.run(fetch("http://shop.example/", names=nothing))


BOMB = zlib.compressobj(9, zlib.DEFLATED, 31)
PACKED = b"".join([*(BOMB.compress(bytes(1 << 20)) for _ in range(100)), BOMB.flush()])


@pytest.mark.parametrize(
    ("pieces", "forever", "note"),
    [
        ([HEAD + b"Content-Encoding: gzip\r\n\r\n" + PACKED], b"", "more than 100,000 bytes"),
        ([HEAD + b"Content-Length: 999999999\r\n\r\n"], b"a" * 65536, "more than 100,000 bytes"),
        ([HEAD + b"\r\n"], b"a" * 65536, "more than 100,000 bytes"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n"], b"1\r\na\r\n" * 5000, "more than 20,000 pieces"),
        ([HEAD + b"Content-Length: 100\r\n\r\nhalf"], b"", "connection broke"),
        ([HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"a" * 999)[:-12]], b"", "not complete"),
        ([HEAD + b"Content-Encoding: gzip\r\n\r\nthis is not gzip"], b"", "malformed"),
        ([HEAD + b"Content-Encoding: br\r\n\r\nabc"], b"", "'br', which was not asked for"),
    ],
)
def test_reading_a_body_stops_at_a_limit(pieces, forever, note):
    async def run() -> None:
        async with Peer(sends(*pieces, forever=forever)) as shop:
            limits = Limits(total_s=60, max_bytes=100_000)

            answer = await fetch(shop.url("shop.example"), limits=limits)

            assert len(answer.body) <= 100_000
            assert [note in text for text in answer.notes] == [True]

    asyncio.run(run())


def test_a_body_that_drips_is_read_for_as_long_as_it_may_take():
    async def run() -> None:
        async with Peer(sends(HEAD + b"\r\n", forever=b"a", every_s=0.05)) as shop:
            began = time.perf_counter()

            answer = await fetch(shop.url("shop.example"), limits=Limits(total_s=0.4))

            assert time.perf_counter() - began < 4
            assert "did not end in time" in answer.notes[0]
            assert answer.body.startswith(b"a")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("pieces", "forever", "every_s"),
    [
        ([], b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
        ([HEAD], b"X-A: b\r\n", 0.05),
        ([HEAD + b"X-A: "], b"b" * 65536, 0.0),
        ([HEAD], b"X-A: b\r\n" * 1000, 0.0),
        ([b"nonsense\r\n\r\n"], b"", 0.0),
        ([b""], b"", 0.0),
        ([HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"], b"", 0.0),
        ([HEAD + b"X A: b\r\n\r\n"], b"", 0.0),
    ],
)
def test_an_answer_without_a_usable_head_leaves_the_outcome_open(pieces, forever, every_s):
    async def run() -> None:
        async with Peer(sends(*pieces, forever=forever, every_s=every_s)) as shop:
            began = time.perf_counter()

            with pytest.raises(ToolCutOff, match="after the request was sent"):
                await fetch(shop.url("shop.example"), "POST", limits=Limits(total_s=0.5))

            assert time.perf_counter() - began < 4

    asyncio.run(run())


@pytest.mark.parametrize("status", [100, 102, 103])
def test_informational_answers_are_counted(status):
    early = b"HTTP/1.1 %d Early\r\n\r\n" % status
    last = HEAD + b"Content-Length: 4\r\n\r\ndone"

    async def run(*pieces: bytes) -> bytes:
        async with Peer(sends(*pieces)) as shop:
            return (await fetch(shop.url("shop.example"), "POST")).body

    assert asyncio.run(run(early * MOST + last)) == b"done"
    with pytest.raises(
        ToolCutOff, match=r"sent more than 16 informational answers \(1xx\) and no other, after the req"
    ):
        asyncio.run(run(early * (MOST + 1) + last))


def test_a_request_that_was_sent_goes_to_no_other_address():
    async def both(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "127.0.0.2"]

    async def run() -> None:
        port = free_port()
        async with Peer(sends(), port=port) as first, Peer(says(b"done"), "127.0.0.2", port) as second:
            with pytest.raises(ToolCutOff):
                await fetch(first.url("shop.example"), "POST", names=both)

            assert (len(first.asked), second.asked) == (1, [])

    asyncio.run(run())


@pytest.mark.parametrize("continues", [True, False])
def test_only_a_server_of_the_operators_gets_the_trace_and_no_other_origin_it_redirects_to(continues):
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def run() -> None:
        async with Peer(says(b"done")) as other, Peer(says(status=307, Location=other.url("other.example"))) as shop:
            fetcher = Fetcher(policy=EgressPolicy(allowed=allowed_in("*, 127.0.0.0/8")), resolver=Names())
            target = parse_target(shop.url("shop.example"))
            with traced(trace_id, "order 4711"):
                await fetcher.fetch(Outgoing(method="GET", target=target, continues_trace=continues))
            with traced(trace_id, "Bestellung für Jörg"):
                await fetcher.fetch(Outgoing(method="GET", target=target, continues_trace=continues))

            trace_ids = [trace_id_of(request.headers.get("traceparent")) for request in (*shop.asked, *other.asked)]
            assert trace_ids == [trace_id if continues else None] * 2 + [None] * 2
            chosen = [request.headers.get("x-correlation-id") for request in (*shop.asked, *other.asked)]
            assert chosen == ["order 4711" if continues else None, None, None, None]

    asyncio.run(run())
