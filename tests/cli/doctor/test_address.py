"""Each thing that a proxy can do to a stream is a finding with its remedy; what a client sees decides."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from typing import Any

import pytest

from cli.doctor import address
from cli.doctor.address import Arrival, Observation, observe

ALL = ["Authorization", "Idempotency-Key", "Last-Event-ID", "Origin"]
HELLO = {"headers": ALL, "forwarded": ["X-Forwarded-For"], "proxy_is_trusted": True, "scheme": "https"}
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def seen(**changes: Any) -> Observation:
    """Return what a client sees behind a proxy that does nothing to a stream."""
    observation = Observation(origin="https://calls.example", has_key=True, status=200, headers=STREAM, closed_s=22.1)
    observation.arrivals = arrivals((0.1, 0), (0.5, 400), (0.9, 800), (22.0, 21_900))
    return replace(observation, **changes)


def arrivals(*times: tuple[float, int], hello: dict[str, Any] = HELLO) -> list[Arrival]:
    kinds = ["hello", *["tick"] * (len(times) - 2), "end"]
    return [
        Arrival(kind, {**hello, "elapsed_ms": elapsed_ms}, at_s)
        for kind, (at_s, elapsed_ms) in zip(kinds, times, strict=True)
    ]


JUDGES = (address.buffering, address.cutting, address.compression, address.headers, address.forwarding)


def test_a_proxy_that_does_nothing_has_no_problem() -> None:
    assert address.refusal(seen()) is None
    assert [judge(seen())[0] for judge in JUDGES] == ["ok"] * 5


def test_a_stream_that_arrives_at_once_at_its_end_was_buffered() -> None:
    late = arrivals((22.0, 0), (22.0, 400), (22.0, 800), (22.0, 21_900))

    verdict, text = address.buffering(seen(arrivals=late))

    assert (verdict, "22.0 s after it was sent" in text, "proxy_buffering off" in text) == ("fail", True, True)


def test_a_slow_network_is_no_buffer() -> None:
    slow = arrivals((3.0, 0), (3.4, 400), (3.9, 800), (25.0, 21_900))

    assert address.buffering(seen(arrivals=slow))[0] == "ok"


def test_a_stream_that_is_quicker_than_it_was_sent_comes_from_a_cache() -> None:
    replayed = arrivals((0.1, 0), (0.1, 400), (0.1, 800), (0.1, 21_900))

    verdict, text = address.buffering(seen(arrivals=replayed))

    assert (verdict, "proxy_cache off" in text) == ("fail", True)


@pytest.mark.parametrize(("closed_s", "verdict"), [(5.9, "fail"), (15.8, "fail"), (17.0, "warn"), (20.0, "warn")])
def test_a_stream_that_is_cut_while_it_is_silent(closed_s: float, verdict: str) -> None:
    cut = seen(arrivals=seen().arrivals[:-1], closed_s=closed_s)

    finding = address.cutting(cut)

    assert (finding[0], "proxy_read_timeout 60s" in finding[1]) == (verdict, True)


def test_a_compressed_stream_is_a_warning() -> None:
    assert address.compression(seen(headers={**STREAM, "content-encoding": "gzip"}))[0] == "warn"


@pytest.mark.parametrize("name", ALL)
def test_a_header_that_does_not_arrive_is_named(name: str) -> None:
    hello = {**HELLO, "headers": [header for header in ALL if header != name]}

    verdict, text = address.headers(seen(arrivals=arrivals((0.1, 0), (0.5, 400), hello=hello)))

    assert (verdict, f"drops {name}:" in text) == ("fail", True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"proxy_is_trusted": False}, "CALLBOARD_TRUSTED_PROXIES"),
        ({"scheme": "http"}, "X-Forwarded-Proto"),
        ({"scheme": "http", "forwarded": [], "proxy_is_trusted": False}, "X-Forwarded-Proto"),
    ],
)
def test_a_scheme_or_a_client_that_is_not_known_is_a_warning(change: dict[str, Any], words: str) -> None:
    finding = address.forwarding(seen(arrivals=arrivals((0.1, 0), (0.5, 400), hello={**HELLO, **change})))

    assert (finding[0], words in finding[1]) == ("warn", True)


def problem(code: str, status: int = 403) -> dict[str, Any]:
    return {"status": status, "headers": {}, "problem": {"code": code, "detail": "something else."}, "arrivals": []}


def certificate_error() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "certificate has expired"
    return error


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (problem("host_refused"), "CALLBOARD_PUBLIC_URL=https://calls.example, and pass the Host header on"),
        (problem("origin_refused"), "Set CALLBOARD_PUBLIC_URL=https://calls.example"),
        (problem("not_found", 404), "no self-test"),
        (problem("unauthenticated", 401), "drops the header Authorization"),
        ({**problem("unauthenticated", 401), "has_key": False}, "--key-file FILE"),
        (problem("overloaded", 503), "something else. [overloaded]"),
        ({"status": 302, "headers": {"location": "/login"}, "arrivals": []}, "a redirect to /login"),
        ({"status": 200, "headers": {"content-type": "text/html"}, "arrivals": []}, "200 with text/html"),
        ({"status": 502, "headers": {"content-type": "text/html"}, "arrivals": []}, "does not reach the web process"),
        ({"arrivals": []}, "ended before its first event"),
        ({"error": ConnectionRefusedError(111, "Connection refused")}, "cannot be reached"),
        ({"error": TimeoutError()}, "cannot be reached: TimeoutError"),
        ({"error": socket.gaierror(-2, "Name or service not known")}, "host name has no address here (Name or service"),
        ({"error": certificate_error()}, "certificate has expired"),
    ],
)
def test_an_answer_that_is_no_stream_says_why(changes: dict[str, Any], words: str) -> None:
    text = address.refusal(seen(**changes))

    assert text is not None
    assert words in text


@pytest.mark.parametrize("url", ["calls.example", "https://calls.example/x", "ftp://calls.example", ""])
def test_an_address_is_an_origin(url: str) -> None:
    with pytest.raises(ValueError, match="an origin without a path"):
        observe(url)


def test_an_answer_without_tls_to_an_https_address_is_named_as_that() -> None:
    incoming = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="calls.example")
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as error_info:
        session.do_handshake()

    assert "does not speak TLS" in str(address.refusal(seen(error=error_info.value)))
