"""Reads the self-test stream of a web process as a client behind its proxies does, and notes when what arrives."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from config.egress.origins import origin_of

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
