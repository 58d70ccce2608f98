"""A server on a real socket that a test scripts, and that keeps what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType

Script = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    server_name: str | None


@dataclass(slots=True)
class Peer:
    """Answers every request by ``script`` and closes the connection."""

    script: Script
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _name: str | None = None

    async def __aenter__(self) -> Peer:
        if self.tls is not None:
            self.tls.sni_callback = self._named
        self._server = await asyncio.start_server(self._answer, self.host, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    def url(self, name: str, path: str = "/") -> str:
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}{path}"

    def _named(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        self._name = name

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._read(reader)
            self.asked.append(request)
            await self.script(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has what it wanted
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        return Asked(method=method, path=path, headers=headers, body=body, server_name=self._name)


def says(body: bytes = b"done", status: int = 200, **headers: str) -> Script:
    """Return the script that answers with a body."""

    async def script(_: Asked, writer: asyncio.StreamWriter) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("Content-Length", str(len(body)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        writer.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)

    return script


def sends(*pieces: bytes, every_s: float = 0.0, forever: bytes = b"") -> Script:
    """Return the script that sends pieces as they are, and then the last one again and again."""

    async def script(_: Asked, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        while forever:
            writer.write(forever)
            await writer.drain()
            await asyncio.sleep(every_s)

    return script
