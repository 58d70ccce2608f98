"""One request on one connection, and the body of its answer.

The request goes to an address by number, with the host's name in ``Host`` and in TLS. The body is decompressed, up to a
limit in bytes and in time.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from config.egress.addresses import Address
from config.egress.errors import HostUnreachable
from config.egress.request import REDIRECTS, Outgoing
from config.errors import ModelVisible, ToolCutOff
from config.tracing import current_headers

if TYPE_CHECKING:
    import httpx2


_GZIP_OR_ZLIB = 47
"""zlib's ``wbits`` that recognises both headers."""
MAX_PIECES = 20_000
"""Pieces of the network, or chunks, that are read of one body: each takes some 20 µs."""
COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})


class Body:
    """Collects what arrives; ``note`` says why it is not the whole body, where it is not."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self.data = bytearray()
        self.note: str | None = None
        self._max_bytes = max_bytes
        self._received = self._pieces = 0
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB) if encoding in COMPRESSED else None
        if encoding not in ("", "identity") and self._inflate is None:
            self.note = f"the body is compressed by {encoding[:20]!r}, which was not asked for, and was not read"

    async def read(self, pieces: AsyncIterator[bytes], until_s: float) -> None:
        """Read until the end, a limit, or the loop's time ``until_s``; other tasks run between two pieces."""
        import httpx2

        if self.note is not None:
            return
        try:
            async with asyncio.timeout_at(until_s):
                async for piece in pieces:
                    if not self._add(piece):
                        return
                    await asyncio.sleep(0)
        except TimeoutError:
            self.note = "the body did not end in time; this is its beginning"
        except httpx2.HTTPError:
            self.note = "the connection broke before the end of the body; this is its beginning"
        else:
            self._finish()

    def _add(self, piece: bytes) -> bool:
        """Take in what arrived; return whether more may come."""
        self._received += len(piece)
        self._pieces += 1
        left = self._max_bytes - len(self.data)
        if self._inflate is None:
            self.data += piece[:left]
            is_more = len(piece) > left
        else:
            try:
                self.data += self._inflate.decompress(piece, left + 1)
            except zlib.error:
                self.note = "the compressed body is malformed; this is its beginning"
                return False
            is_more = len(self.data) > self._max_bytes or self._received > self._max_bytes
            del self.data[self._max_bytes :]
        if is_more:
            self.note = f"the body has more than {self._max_bytes:,} bytes; this is its beginning"
        elif self._pieces > MAX_PIECES:
            self.note = f"the body came in more than {MAX_PIECES:,} pieces; this is its beginning"
        return self.note is None

    def _finish(self) -> None:
        """Say so where the compressed data did not end, or something follows it."""
        inflate = self._inflate
        if inflate is not None and self._received and (not inflate.eof or inflate.unused_data):
            self.note = "the compressed body is not complete; this is its beginning"


_ALWAYS = {"User-Agent": "Callboard", "Accept": "*/*"}
_NEVER_CONNECTED = "ConnectError ConnectTimeout PoolTimeout UnsupportedProtocol".split()
"""Exceptions of httpx that are raised before a request is sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long a request may take, and how much an answer may have. An answer's headers have 100 KiB at most."""

    total_s: float = 30.0
    """Seconds for everything, redirects included."""
    connect_s: float = 10.0
    """Seconds for each address of a host."""
    max_bytes: int = 1024 * 1024
    """Bytes of the body, decompressed; the rest is not read."""
    max_redirects: int = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """What a server answered; ``notes`` say what of it is missing."""

    status: int
    url: str
    """The address that answered, after redirects."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = b""
    notes: tuple[str, ...] = ()

    @property
    def location(self) -> str | None:
        """Where it redirects to, if it does."""
        return self.headers.get("location") if self.status in REDIRECTS else None


class Exchange:
    """One request on its way, with the connection that it uses."""

    def __init__(self, request: Outgoing, limits: Limits, tls: ssl.SSLContext) -> None:
        import httpx2  # takes 60 ms

        from config.egress.informational import bound_informational

        bound_informational()
        self._request = request
        self._limits = limits
        self._is_sent = False
        self._transport = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, http2=False, retries=0)

    async def first_of(self, addresses: Sequence[Address]) -> httpx2.Response:
        """Send the request to the first address that accepts a connection, and return the head of its answer."""
        import httpx2

        for number, address in enumerate(addresses, start=1):
            try:
                return await self._transport.handle_async_request(self._to(address))
            except httpx2.TransportError as error:
                is_unsent = not self._is_sent and type(error).__name__ in _NEVER_CONNECTED
                if number < len(addresses) and is_unsent:
                    continue
                raise self.failed(_problem(error)) from error
        raise AssertionError("the policy refuses a host without addresses")

    def failed(self, problem: str) -> ModelVisible:
        """Return the error that says whether the request may have arrived."""
        host = self._request.target.host
        if not self._is_sent:
            return HostUnreachable(f"{host} {problem}; the request was not sent.")
        return ToolCutOff(f"{host} {problem}, after the request was sent.")

    async def read(self, answer: httpx2.Response, until_s: float) -> HttpAnswer:
        """Return the answer with its body; of a redirect the body is not read."""
        headers = {name.lower(): value for name, value in answer.headers.items()}
        body = Body(headers.get("content-encoding", "").strip().lower(), self._limits.max_bytes)
        whole = HttpAnswer(status=answer.status_code, url=str(self._request.target), headers=headers)
        try:
            if whole.location is None and self._request.method != "HEAD":
                await body.read(answer.aiter_raw(), until_s)
        finally:
            await answer.aclose()
        return replace(whole, body=bytes(body.data), notes=() if body.note is None else (body.note,))

    async def close(self) -> None:
        await self._transport.aclose()

    def _to(self, address: Address) -> httpx2.Request:
        """Return the request to one address of the host, with the host's name in ``Host`` and in TLS."""
        import httpx2

        request, limits = self._request, self._limits
        chosen = {name.lower() for name, _ in request.headers}
        headers = [("Host", request.target.authority), ("Accept-Encoding", "gzip, deflate"), *request.headers]
        more = _ALWAYS | (_trace() if request.continues_trace else {})
        headers += [(name, value) for name, value in more.items() if name.lower() not in chosen]
        host = f"[{address}]" if address.version == 6 else str(address)
        times = dict.fromkeys(("read", "write", "pool"), limits.total_s) | {"connect": limits.connect_s}
        extensions = {
            "sni_hostname": request.target.host,
            "target": request.target.path.encode(),  # httpx would remove dots from the path of a URL
            "timeout": times,
            "trace": self._trace,
        }
        return httpx2.Request(
            request.method,
            httpx2.URL(scheme=request.target.scheme, host=host, port=request.target.port),
            headers=headers,
            content=request.body or None,
            extensions=extensions,
        )

    async def _trace(self, event: str, facts: Mapping[str, Any]) -> None:
        self._is_sent = self._is_sent or event == "http11.send_request_headers.started"


def _trace() -> dict[str, str]:
    """Return the headers of the current trace; a correlation id that HTTP cannot carry is left out."""
    return {name: value for name, value in current_headers().items() if value.isascii() and value.isprintable()}


def causes_of(error: BaseException) -> Sequence[BaseException]:
    """Return the error and what led to it, the nearest first."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < 8:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def _problem(error: BaseException) -> str:
    """Return what happened without addresses and the words of libraries."""
    from config.egress.informational import PROBLEM, InformationalFlood

    causes = causes_of(error)
    if any(isinstance(cause, InformationalFlood) for cause in causes):
        return PROBLEM
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return "has a TLS certificate that is not valid for it, or not signed by a trusted authority"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return "could not agree on TLS"
    kind = type(error).__name__
    if kind == "ConnectError":
        return "accepts no connection"
    return "did not accept a connection in time" if kind == "ConnectTimeout" else f"broke the connection ({kind})"


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Return the authorities that this machine trusts, read once: that takes 20 ms."""
    import httpx2

    return httpx2.create_ssl_context()
