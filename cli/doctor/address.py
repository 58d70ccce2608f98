"""What proxies between here and a web process do to its streams and headers, each with its remedy.

The self-test stream is read as a client behind the proxies does, with a note of when what arrives.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from config.egress.origins import origin_of
from web.api.selftest import NAMED
from web.doctor import Finding, Judged, fail, ok, warn

EVENTS, INTERVAL_MS, IDLE_S = 5, 400, 20
PATIENCE_S = 15.0
"""Seconds beyond the idle gap until a stream without a byte is given up."""
MAX_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event, and when it arrived."""

    kind: str
    facts: Mapping[str, Any]
    at_s: float
    """Seconds since the request."""

    @property
    def late_s(self) -> float:
        """Seconds between the request and the event that the server did not wait by itself."""
        return self.at_s - float(self.facts.get("elapsed_ms", 0)) / 1000


@dataclass(kw_only=True)
class Observation:
    """What came of one request for the self-test stream."""

    origin: str
    has_key: bool
    error: Exception | None = None
    """What ended the connection before there was an answer."""
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in small letters."""
    problem: Mapping[str, Any] = field(default_factory=dict)
    """The body of an error of Callboard's."""
    arrivals: list[Arrival] = field(default_factory=list)
    closed_s: float = 0.0
    """When the stream ended, in seconds since the request."""
    idle_s: float = IDLE_S


def observe(url: str, key: str | None = None, idle_s: int = IDLE_S) -> Observation:
    """Return what comes of a request for the self-test stream at this address; it takes ``idle_s`` and two seconds.

    Raises:
        ValueError: the address is not an origin.
    """
    seen = Observation(origin=origin_of(url.rstrip("/")), has_key=key is not None, idle_s=idle_s)
    try:
        with closing(_connection(seen.origin, idle_s + PATIENCE_S)) as connection:
            began = time.monotonic()
            path = f"/v1/selftest/stream?events={EVENTS}&interval_ms={INTERVAL_MS}&idle_s={idle_s}"
            connection.request("GET", path, headers=_headers(seen.origin, key))
            _read(connection.getresponse(), seen, began)
    except (OSError, http.client.HTTPException) as error:
        seen.error = error
    return seen


def _headers(origin: str, key: str | None) -> dict[str, str]:
    return {
        "Accept": "text/event-stream",
        "Accept-Encoding": "gzip",
        "Authorization": f"Bearer {key or 'selftest'}",
        "Idempotency-Key": "selftest",
        "Last-Event-ID": "1",
        "Origin": origin,
    }


def _connection(origin: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(origin)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=ssl.create_default_context())


def _read(answer: http.client.HTTPResponse, seen: Observation, began: float) -> None:
    seen.status = answer.status
    seen.headers = {name.lower(): value for name, value in answer.getheaders()}
    if not is_stream(seen):
        seen.problem = _problem(answer, seen)
        return
    try:
        for arrival in _arrivals(_lines(answer, seen.headers.get("content-encoding", "")), began):
            seen.arrivals.append(arrival)
    except (OSError, http.client.HTTPException, zlib.error):
        pass  # a proxy cut the stream; what has arrived says when
    finally:
        seen.closed_s = time.monotonic() - began


def is_stream(seen: Observation) -> bool:
    """Return whether the answer is a stream of events."""
    return seen.status == 200 and seen.headers.get("content-type", "").startswith("text/event-stream")


def _problem(answer: http.client.HTTPResponse, seen: Observation) -> Mapping[str, Any]:
    if not seen.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        body = json.loads(answer.read(MAX_BODY_BYTES))
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _arrivals(lines: Iterator[str], began: float) -> Iterator[Arrival]:
    kind, facts = "", {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            facts = json.loads(value)
        elif not line and kind:
            yield Arrival(kind, facts, time.monotonic() - began)
            kind, facts = "", {}


def _lines(answer: http.client.HTTPResponse, encoding: str) -> Iterator[str]:
    """Yield each line as soon as it is whole."""
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    rest = b""
    while data := answer.read1(MAX_BODY_BYTES):
        rest += decoder.decompress(data) if decoder is not None else data
        *lines, rest = rest.split(b"\n")
        yield from (line.decode("utf-8", "replace").rstrip("\r") for line in lines)


COMMENT_S = 15
"""Seconds between two comments on a stream on which nothing happens."""
LATE_S = 1.0
"""By so many seconds more than the last event the first one may be late."""
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL's releases call an answer that is no TLS."""
PAGE = "docs/deployment/proxies.md has a configuration that works"
REFUSALS = {
    "host_refused": "the web process does not serve the host that the proxy passes on. Set "
    "CALLBOARD_PUBLIC_URL={origin}, and pass the Host header on (nginx: proxy_set_header Host $http_host).",
    "origin_refused": "the web process takes another origin for its own, so it refuses the page's requests. Set "
    "CALLBOARD_PUBLIC_URL={origin}, or name the address that users see with --url.",
    "not_found": "the web process has no self-test: it is older than this doctor, or the proxy changes the path.",
}


def check_address(url: str, key: str | None, idle_s: int) -> Iterator[Finding]:
    """Yield what a client at this address sees; it takes some seconds more than ``idle_s``.

    Raises:
        ValueError: the address is not an origin.
    """
    seen = observe(url, key, idle_s)
    refused = refusal(seen)
    if refused is not None:
        yield Finding("address", *fail(refused))
        return
    judges = {"stream": buffering, "idle": cutting, "encoding": compression, "headers": headers, "client": forwarding}
    for about, judge in judges.items():
        yield Finding(about, *judge(seen))


def refusal(seen: Observation) -> str | None:
    """Return why there is no stream, or None."""
    if seen.error is not None:
        return _unreachable(seen.error)
    if is_stream(seen):
        return None if seen.arrivals else "the stream ended before its first event; see the log of the proxy."
    code = str(seen.problem.get("code", ""))
    if code in REFUSALS:
        return REFUSALS[code].format(origin=seen.origin) + f" [{code}]"
    if code == "unauthenticated":
        return _unauthenticated(seen.has_key)
    if code:
        return f"{seen.problem.get('detail', '')} [{code}]"
    return _foreign(seen)


def _unreachable(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"clients do not accept its certificate: {error.verify_message}"
        return f"{problem}. Renew it, or name the file of its CA in SSL_CERT_FILE."
    if isinstance(error, socket.gaierror):
        return f"its host name has no address here ({error.strerror}). Correct the name, or enter it into the DNS."
    if isinstance(error, ssl.SSLError) and error.reason in NO_TLS:
        return "what answers there does not speak TLS. Begin the address with http://, or let the server end TLS."
    return f"it cannot be reached: {str(error) or type(error).__name__}. Start the web process and the proxy."


def _unauthenticated(has_key: bool) -> str:
    if not has_key:
        return "it asks for a credential; name a file with an API key: --key-file FILE. [unauthenticated]"
    return (
        "the API key is not valid, or a proxy drops the header Authorization (a login of its own may; nginx: "
        "proxy_set_header Authorization $http_authorization). [unauthenticated]"
    )


def _foreign(seen: Observation) -> str:
    if location := seen.headers.get("location"):
        return f"another server answers: a redirect to {location[:200]}. Pass all paths on to the web process; {PAGE}."
    kind = seen.headers.get("content-type", "no content type")
    away = " It does not reach the web process." if seen.status in (502, 503, 504) else ""
    return f"another server answers: {seen.status} with {kind[:100]}.{away} {PAGE}."


def buffering(seen: Observation) -> Judged:
    """Judge by how late the first events are, compared with later ones."""
    late = [arrival.late_s for arrival in seen.arrivals]
    if min(late) < -LATE_S:
        return fail("a cache answers with an earlier stream, perhaps another client's. nginx: proxy_cache off.")
    if late[0] - min(late) > LATE_S:
        return fail(
            f"a proxy buffers streams: the first event arrived {late[0]:.1f} s after it was sent. nginx: "
            f"proxy_buffering off; Caddy: flush_interval -1; {PAGE}."
        )
    return ok(f"events arrive within {max(late):.2f} s, one by one")


def cutting(seen: Observation) -> Judged:
    """Judge by whether the stream outlived its idle gap."""
    if seen.arrivals[-1].kind == "end":
        return ok(f"a stream without a byte for {seen.idle_s:g} s stays open")
    silent_s = seen.closed_s - seen.arrivals[-1].at_s
    problem = f"a proxy cut the stream after {silent_s:.0f} s without a byte"
    remedy = f"Allow 60 s. nginx: proxy_read_timeout 60s; Caddy: transport http read_timeout; {PAGE}."
    if silent_s > COMMENT_S:
        return warn(f"{problem}; a comment every {COMMENT_S} s only just keeps streams open. {remedy}")
    return fail(f"{problem}, sooner than the comment that keeps streams open ({COMMENT_S} s). {remedy}")


def compression(seen: Observation) -> Judged:
    encoding = seen.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return ok("streams are not compressed")
    return warn(
        f"a proxy compresses streams ({encoding}), which collects events until a block is full. nginx: leave "
        "text/event-stream out of gzip_types; Caddy: do not encode it."
    )


def headers(seen: Observation) -> Judged:
    arrived = seen.arrivals[0].facts.get("headers", [])
    if missing := [name for name in NAMED if name not in arrived]:
        return fail(
            f"a proxy drops {', '.join(missing)}: {_consequence(missing[0])} nginx: remove proxy_set_header lines that "
            "empty them, and proxy_pass_request_headers off."
        )
    return ok(f"{', '.join(NAMED)} arrive")


def _consequence(name: str) -> str:
    return {
        "Authorization": "clients cannot authenticate.",
        "Idempotency-Key": "a repeated start is a second run.",
        "Last-Event-ID": "a resumed stream begins at its first event.",
        "Origin": "requests of foreign pages are not recognised.",
    }[name]


def forwarding(seen: Observation) -> Judged:
    """Judge by what the web process takes the client's scheme for."""
    hello, scheme = seen.arrivals[0].facts, urlsplit(seen.origin).scheme
    forwarded = hello.get("forwarded", [])
    if forwarded and not hello.get("proxy_is_trusted"):
        return warn(
            f"a proxy sends {', '.join(forwarded)}, and its address is not in CALLBOARD_TRUSTED_PROXIES: all clients "
            "have the proxy's address. Add it."
        )
    if hello.get("scheme") != scheme:
        return warn(
            f"the web process takes these requests for {hello.get('scheme')}. Send X-Forwarded-Proto, and name the "
            "proxy in CALLBOARD_TRUSTED_PROXIES."
        )
    return ok(f"the web process sees {scheme}" + (f", and what {', '.join(forwarded)} say" if forwarded else ""))
