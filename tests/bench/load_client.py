"""The viewers of the bench, in a process of their own: they read streams and note when bytes came, and no more.

    python -m tests.bench.load_client < order.json > answer.json

Nothing is parsed while streams run. Each arrival is kept with its time and taken apart afterwards, so that the
client costs the machine it shares with what is measured as little as possible, and the same for each way.
"""

from __future__ import annotations

import asyncio
import bisect
import gc
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import orjson

from tests.bench.legs import Clocks, Moments, fetch_arrivals, legs_of, trace

_STAMP = re.compile(rb"(\d{12,19}) ")
_EVENT = re.compile(rb"event: (?P<type>\w+)\ndata: (?P<data>.*)\nid: (?P<number>\d+)\n\n")
_OVER = (b"[DONE]", b"event: end\n")
_LONGEST_MARK = 16
Protocol = Literal["plain", "callboard"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What is to be watched."""

    host: str
    port: int
    protocol: Protocol
    """``plain``: one POST that streams. ``callboard``: POST /v1/runs, then GET its events on the same connection."""
    path: str
    body: dict[str, Any]
    streams: int
    ramp_s: float
    """Over how many seconds the streams begin, evenly."""
    model_url: str
    """Where the model server tells when it was asked."""
    timeout_s: float
    """After so long from the first, a stream that is not over counts as lost."""


@dataclass(slots=True)
class Arrivals:
    """One stream's bytes, each piece with the time it came."""

    pieces: list[bytes] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)


class Viewer(asyncio.Protocol):
    """One connection that asks for a stream and reads it to its end."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._answer = bytearray()
        self._tail = b""
        self._transport: asyncio.Transport | None = None
        self._is_streaming = order.protocol == "plain"
        self.arrivals = Arrivals()
        self.sent_ns = 0
        self.accepted_ns = 0
        """When the run's id was there."""
        self.is_over = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        body = orjson.dumps(self._order.body)
        self.sent_ns = time.monotonic_ns()
        transport.write(self._head("POST", self._order.path, f"Content-Length: {len(body)}\r\n") + body)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._is_streaming:
            self._take_answer(data, now)
            return
        self.arrivals.pieces.append(data)
        self.arrivals.times_ns.append(now)
        recent = self._tail + data
        if any(mark in recent for mark in _OVER):
            self._finish()
        self._tail = recent[-_LONGEST_MARK:]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _take_answer(self, data: bytes, now: int) -> None:
        """Read the answer to POST /v1/runs and ask for the run's events."""
        self._answer += data
        head, blank, body = bytes(self._answer).partition(b"\r\n\r\n")
        match = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if not blank or match is None or len(body) < int(match[1]):
            return
        assert self._transport is not None
        if b" 202 " not in head.partition(b"\r\n")[0] + b" ":
            self.arrivals.pieces.append(bytes(self._answer))
            self.arrivals.times_ns.append(now)
            self._transport.close()
            return
        self.accepted_ns = now
        self._is_streaming = True
        self._transport.write(self._head("GET", orjson.loads(body)["events_url"], "Accept: text/event-stream\r\n"))

    def _head(self, method: str, path: str, more: str) -> bytes:
        host = f"{self._order.host}:{self._order.port}"
        lines = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{more}\r\n"
        return lines.encode()

    def _finish(self) -> None:
        self.is_over = True
        assert self._transport is not None
        # An event may still be on its way in pieces; the rest of it comes with the close.
        asyncio.get_running_loop().call_later(0.05, self._transport.close)


@dataclass(slots=True)
class Findings:
    """One stream, taken apart."""

    latencies_ns: list[int] = field(default_factory=list)
    first_token_ns: int | None = None
    """From the request to the first token."""
    first_stamp: int | None = None
    """When the model server wrote the first token."""
    at: dict[str, str] = field(default_factory=dict)
    """The times of the run's events ``queued`` and ``running``, and of its first token's (``callboard``)."""
    accepted_ns: int | None = None
    stamps: int = 0
    unordered: int = 0
    """Tokens that came before an older one, or twice."""
    lost: int = 0
    """Numbers of events that never came (``callboard``)."""
    repeated: int = 0
    is_whole: bool = False
    """Whether the stream ended, and its text is what its last message says."""
    complaint: str = ""


def examine(viewer: Viewer, protocol: Protocol) -> Findings:
    """Return what a viewer's bytes say."""
    body, ends, times = _body(viewer.arrivals)
    findings = Findings(is_whole=viewer.is_over)
    if viewer.accepted_ns:
        findings.accepted_ns = viewer.accepted_ns - viewer.sent_ns
    if protocol == "callboard":
        spans = _events(body, findings)
    else:
        spans = [(match.end(), int(match[1])) for match in _STAMP.finditer(body)]
    newest = 0
    for end, stamp in spans:
        came = times[bisect.bisect_left(ends, end)]
        findings.latencies_ns.append(came - stamp)
        findings.unordered += stamp <= newest
        newest = max(stamp, newest)
        if findings.first_token_ns is None:
            findings.first_token_ns, findings.first_stamp = came - viewer.sent_ns, stamp
    findings.stamps = len(spans)
    if not viewer.is_over:
        findings.complaint = b"".join(viewer.arrivals.pieces)[:300].decode(errors="replace") or "no byte came"
    return findings


def _events(body: bytes, findings: Findings) -> list[tuple[int, int]]:
    """Return where each token ends and its stamp; note lost and repeated numbers, and whether the text is right."""
    spans: list[tuple[int, int]] = []
    numbers: list[int] = []
    text: list[str] = []
    final = None
    for match in _EVENT.finditer(body):
        numbers.append(int(match["number"]))
        if match["type"] == b"status":
            payload = orjson.loads(match["data"])
            findings.at.setdefault(payload.get("status", ""), payload.get("at", ""))
        elif match["type"] == b"response":
            payload = orjson.loads(match["data"])
            findings.at.setdefault("response", payload.get("at", ""))
            content = payload["content"]
            text.append(content)
            spans += [(match.end(), int(stamp)) for stamp in content.split()]
        elif match["type"] == b"message":
            final = orjson.loads(match["data"]).get("content")
    expected = range(1, (max(numbers) if numbers else 0) + 1)
    findings.lost = len(set(expected) - set(numbers))
    findings.repeated = len(numbers) - len(set(numbers))
    findings.is_whole = findings.is_whole and final == "".join(text)
    return spans


def _body(arrivals: Arrivals) -> tuple[bytes, list[int], list[int]]:
    """Return the stream without its head and framing, where each piece of it ends, and when each came."""
    whole = b"".join(arrivals.pieces)
    head, _, rest = whole.partition(b"\r\n\r\n")
    began = len(whole) - len(rest)
    came_by: list[int] = []
    position = 0
    for piece in arrivals.pieces:
        position += len(piece)
        came_by.append(position)
    if b"transfer-encoding: chunked" not in head.lower():
        return rest, [max(end - began, 0) for end in came_by], arrivals.times_ns
    parts, ends, times = [], [], []
    at, length = began, 0
    while (line_end := whole.find(b"\r\n", at)) != -1:
        size = int(whole[at:line_end] or b"0", 16)
        start = line_end + 2
        if size == 0 or start + size > len(whole):
            break
        parts.append(whole[start : start + size])
        length += size
        ends.append(length)
        times.append(arrivals.times_ns[bisect.bisect_left(came_by, start + size)])
        at = start + size + 2
    return b"".join(parts), ends, times


async def watch(order: Order) -> list[Viewer]:
    """Begin the streams one after another and return them when all are over, or time is."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    viewers: list[Viewer] = []
    for number in range(order.streams):
        await asyncio.sleep(max(0.0, began + order.ramp_s * number / order.streams - loop.time()))
        _, viewer = await loop.create_connection(lambda: Viewer(order), order.host, order.port)
        viewers.append(viewer)
    left = max(0.1, began + order.timeout_s - loop.time())
    await asyncio.wait([viewer.done for viewer in viewers], timeout=left)
    return viewers


def moments_of(viewer: Viewer, findings: Findings, arrivals: Mapping[int, int], clocks: Clocks) -> Moments | None:
    """Return when the first token passed each place; None where a place did not see it."""
    arrival_ns = arrivals.get(findings.first_stamp or 0)
    if findings.first_token_ns is None or findings.first_stamp is None or arrival_ns is None:
        return None
    at = {name: clocks.monotonic_ns(findings.at[name]) for name in ("queued", "running") if name in findings.at}
    numbered = clocks.monotonic_ns(findings.at["response"]) if "response" in findings.at else None
    received = viewer.sent_ns + findings.first_token_ns
    return Moments(
        sent=viewer.sent_ns, asked=arrival_ns, written=findings.first_stamp, numbered=numbered, received=received, **at
    )


def legs_ms(moments: Sequence[Moments]) -> dict[str, dict[str, float] | None]:
    """Return each leg's percentiles over all streams."""
    spans = [legs_of(each) for each in moments]
    return {name: percentiles(sorted(each[name] for each in spans)) for name in (spans[0] if spans else ())}


def slowness(moments: Moments) -> int:
    """Return the time from the request to the first token."""
    return moments.received - moments.sent


def summary(
    viewers: Sequence[Viewer], protocol: Protocol, seconds: float, arrivals: Mapping[int, int], clocks: Clocks
) -> dict[str, Any]:
    """Return what all streams together say."""
    findings = [examine(viewer, protocol) for viewer in viewers]
    seen = (moments_of(viewer, finding, arrivals, clocks) for viewer, finding in zip(viewers, findings, strict=True))
    moments = sorted(filter(None, seen), key=slowness)
    latencies = sorted(latency for finding in findings for latency in finding.latencies_ns)
    first = sorted(finding.first_token_ns for finding in findings if finding.first_token_ns is not None)
    accepted = sorted(finding.accepted_ns for finding in findings if finding.accepted_ns is not None)
    return {
        "streams": len(findings),
        "whole": sum(finding.is_whole for finding in findings),
        "tokens": sum(finding.stamps for finding in findings),
        "tokens_of": sorted({finding.stamps for finding in findings}),
        "latency_ms": percentiles(latencies),
        "first_token_ms": percentiles(first),
        "accepted_ms": percentiles(accepted),
        "legs_ms": legs_ms(moments),
        "median_run": trace(moments[len(moments) // 2]) if moments else "",
        "unordered": sum(finding.unordered for finding in findings),
        "lost": sum(finding.lost for finding in findings),
        "repeated": sum(finding.repeated for finding in findings),
        "complaints": sorted({finding.complaint for finding in findings if finding.complaint})[:3],
        "seconds": seconds,
        "client_cpu_s": time.process_time(),
    }


def percentiles(sorted_ns: Sequence[int]) -> dict[str, float] | None:
    """Return p50, p99 and the worst in milliseconds; None when nothing came."""
    if not sorted_ns:
        return None
    last = len(sorted_ns) - 1
    return {
        "p50": sorted_ns[last // 2] / 1e6,
        "p99": sorted_ns[min(last, round(last * 0.99))] / 1e6,
        "max": sorted_ns[-1] / 1e6,
    }


def main() -> None:
    """Read an order, follow it, print what was found."""
    import uvloop

    order, clocks = Order(**orjson.loads(sys.stdin.buffer.read())), Clocks.read()
    fetch_arrivals(order.model_url)  # of earlier loads
    gc.collect()
    gc.disable()
    began = time.monotonic()
    viewers = uvloop.run(watch(order))
    seconds = time.monotonic() - began
    report = summary(viewers, order.protocol, seconds, fetch_arrivals(order.model_url), clocks)
    sys.stdout.buffer.write(orjson.dumps(report))


if __name__ == "__main__":
    main()
