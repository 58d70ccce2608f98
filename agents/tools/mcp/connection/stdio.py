"""A server on stdio: its process, under a guard that ends every process beneath it, and its standard error.

The SDK's own transport leaves processes behind that the server started, and reads lines of any length. What a server
writes to its standard error is in this process's log: redacted, and no more than a person reads.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from agents.errors import McpServerDown
from agents.tools.isolation.guarded import end, ended, guarded_argv, kernel_limits
from agents.tools.mcp.connection.faults import McpFault, of_exit
from agents.tools.mcp.connection.http import CUT_OFF
from agents.tools.mcp.connection.traffic import (
    Inbound,
    Outbound,
    TooMuch,
    Traffic,
    require_few_values,
    require_flat,
    watched,
)
from config.definitions.mcp.server import McpServerDefinition
from config.redaction import redact_start
from config.text.visible import visible

log = logging.getLogger(__name__)

GRACE_S = 2.0
"""Seconds that a server may take to end after its standard input was closed."""
BROKEN_GRACE_S = 0.2
"""The same of one that closed its standard output, or whose connection was ended."""
MAX_SHOWN = 500
"""Characters of its standard error in a message."""
MAX_LINE = 500
"""Characters of one line in the log."""
MAX_LINES, WINDOW_S = 60, 60.0
"""Lines of one server in the log, and in how many seconds."""
TAIL_BYTES = 4000
"""Bytes of the end that are kept for the report of its failure."""


class StdioConnection:
    """The process of one server; entered, it is a pair of streams for a session."""

    def __init__(self, server: McpServerDefinition, environment: Mapping[str, str], traffic: Traffic) -> None:
        self._server, self._environment, self._traffic = server, environment, traffic
        self._errors = ErrorLog(server.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._writer = LineWriter()
        self._pipes: list[asyncio.BaseTransport] = []
        self._ended_itself = False

    async def __aenter__(self) -> tuple[Inbound, Outbound]:
        self._process = self._start()
        try:
            return await self._connect(self._process)
        except BaseException:
            await self._leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    def account(self) -> str:
        """Return how the process ended by itself, as a part of a sentence; empty where it did not."""
        if self._process is None or self._process.returncode is None or not self._ended_itself:
            return ""
        end = end_of(self.said)
        text = f"it ended with status {self._process.returncode}"
        return f"{text}; its standard error ends with: {end}" if end else text

    @property
    def fault(self) -> McpFault | None:
        """What is wrong with a process that ended by itself."""
        is_known = self._process is not None and self._ended_itself and self._process.returncode is not None
        return of_exit(self._process.returncode, self.said) if is_known and self._process is not None else None

    @property
    def said(self) -> str:
        """The end of the process's standard error, redacted and with hidden characters visible."""
        return visible(self._errors.tail)

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        limits = self._server.limits.model_dump()
        argv = guarded_argv(self._server.argv(), limits=kernel_limits(limits), processes=limits["processes"])
        folder = Path(self._server.file).parent
        try:
            return subprocess.Popen(
                argv,
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=dict(self._environment),
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise McpServerDown(f"no process could be started for it: {error}.") from error

    async def _connect(self, process: subprocess.Popen[bytes]) -> tuple[Inbound, Outbound]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=self._server.max_bytes, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        for connecting in (
            loop.connect_read_pipe(lambda: protocol, process.stdout),
            loop.connect_read_pipe(lambda: self._errors, process.stderr),
            loop.connect_write_pipe(lambda: self._writer, process.stdin),
        ):
            transport, _ = await connecting
            self._pipes.append(transport)
        return watched(LineReader(reader, self._traffic, self._server.name), self._writer, self._traffic)

    async def _leave(self) -> None:
        """End the process and everything that it started; shielded, since a cancelled caller would leave it behind."""
        process = self._process
        if process is None:
            return
        self._ended_itself = self._traffic.has_ended and self._traffic.problem is None
        with anyio.CancelScope(shield=True):
            self._writer.close()
            with anyio.move_on_after(BROKEN_GRACE_S if self._traffic.has_ended else GRACE_S):
                await ended(process)
            await end(process)
            await asyncio.sleep(0)  # the pipes' last bytes
            for pipe in self._pipes:
                pipe.close()


def end_of(output: str) -> str:
    """Return the last whole lines of ``MAX_SHOWN`` characters at most, or the end of the last line."""
    end = output[-MAX_SHOWN:]
    is_cut = len(output) > MAX_SHOWN and output[-MAX_SHOWN - 1] != "\n"
    return end.partition("\n")[2].strip() or f"… {end}" if is_cut else end


class ErrorLog(asyncio.Protocol):
    """Logs the lines of a pipe, and keeps its end."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._tail = bytearray()
        self._line = bytearray()
        self._window_s, self._logged, self._left_out = 0.0, 0, 0

    @property
    def tail(self) -> str:
        """The end of what was written, redacted."""
        text = bytes(self._tail).decode("utf-8", "replace").strip()
        return redact_start(text, len(text))

    def data_received(self, data: bytes) -> None:
        self._tail += data[-TAIL_BYTES:]
        del self._tail[:-TAIL_BYTES]
        self._line += data
        *lines, rest = bytes(self._line[-64 * 1024 :]).split(b"\n")
        self._line = bytearray(rest[-4 * MAX_LINE :])
        for line in lines:
            self._add(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._add(bytes(self._line))
        self._note_left_out()

    def _add(self, line: bytes) -> None:
        if not line.strip():
            return
        now_s = time.monotonic()
        if now_s - self._window_s > WINDOW_S:
            self._note_left_out()
            self._window_s, self._logged = now_s, 0
        if self._logged >= MAX_LINES:
            self._left_out += 1
            return
        self._logged += 1
        text = line[: 4 * MAX_LINE].decode("utf-8", "replace").rstrip("\r")
        log.info("the MCP server %s wrote: %s", self._server, redact_start(text, MAX_LINE))

    def _note_left_out(self) -> None:
        if self._left_out:
            log.info("the MCP server %s wrote %d more lines, which are not logged", self._server, self._left_out)
        self._left_out = 0


# --- the messages, one a line


_TURN = 100
"""Lines that are read before other tasks get their turn."""
MAX_DIGITS = 19
"""Digits of an id in an answer that the SDK does not read."""
_BOM = b"\xef\xbb\xbf"


class LineReader:
    """The messages of a server; lines that are none are left out.

    In place of an answer that cannot be read there is an error, which ends the call: nothing else would come.
    """

    def __init__(self, reader: asyncio.StreamReader, traffic: Traffic, name: str) -> None:
        self._reader, self._traffic, self._name = reader, traffic, name
        self._waiting: deque[JSONRPCMessage] = deque()
        self._lines = self._garbage = 0

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the server closed its standard output.
            TooMuch: a line is too long, or there are too many.
        """
        while not self._waiting:
            line = await self._next()
            self._waiting += self._messages(line.removeprefix(_BOM).lstrip())
        return SessionMessage(self._waiting.popleft())

    async def _next(self) -> bytes:
        self._lines += 1
        if self._lines % _TURN == 0:
            await asyncio.sleep(0)
        try:
            line = await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise anyio.EndOfStream from error
        except asyncio.LimitOverrunError as error:
            raise TooMuch(f"it sent a message of more than {self._traffic.max_bytes:,} bytes") from error
        self._traffic.arrived(len(line))
        return line

    def _messages(self, line: bytes) -> list[JSONRPCMessage]:
        is_batch = line.startswith(b"[") and line[1:].lstrip().startswith(b"{")
        if is_batch or line.startswith(b"{"):
            require_few_values(line)
            with suppress(ValueError):
                return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
            require_flat(line)
            if unread := list(_unread_answers(line)):
                return unread
        if line and not self._garbage:
            log.warning("the MCP server %s writes lines to its standard output that are no messages", self._name)
        self._garbage += 1
        return []

    async def aclose(self) -> None:
        """Leave the pipe open: the process's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class LineWriter(asyncio.BaseProtocol):
    """The way to a server: a message a line, as fast as it reads them."""

    def __init__(self) -> None:
        self._pipe: asyncio.WriteTransport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Return when the message was handed to the system.

        Raises:
            anyio.BrokenResourceError: the server reads no more.
        """
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._require_open().write(data + b"\n")
        await self._may_write.wait()
        self._require_open()

    def _require_open(self) -> asyncio.WriteTransport:
        if self._pipe is None or self._is_closed:
            raise anyio.BrokenResourceError
        return self._pipe

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = cast(asyncio.WriteTransport, transport)  # uvloop's are not derived from it

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._may_write.set()

    def close(self) -> None:
        """Close the server's standard input, also where it does not read what is under way."""
        self._is_closed = True
        self._may_write.set()
        if self._pipe is not None:
            self._pipe.close() if self._pipe.get_write_buffer_size() == 0 else self._pipe.abort()

    async def aclose(self) -> None:
        """Leave the pipe open: the process's owner closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _unread_answers(line: bytes) -> Iterator[JSONRPCMessage]:
    """Yield an error for each answer in a line that the SDK does not read; it has few values, and they are flat.

    Python's parser takes what the SDK's does not: half of a surrogate pair, long numbers, and members that are missing
    or have another type. Bytes that are not UTF-8 are replaced.
    """
    try:
        document = json.loads(line.decode(errors="replace"), parse_int=_short)
    except ValueError:
        return
    for item in document if isinstance(document, list) else [document]:
        number = item.get("id") if isinstance(item, dict) and "method" not in item else None
        if type(number) is int or (isinstance(number, str) and number.isascii()):  # others are no ids of ours
            problem = "it answered with a list of messages" if item is not document else "its answer is no message"
            yield JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=CUT_OFF, message=problem))


def _short(digits: str) -> Any:
    """Return a number that may be an id; the time of reading others grows faster than their length."""
    return int(digits) if len(digits) <= MAX_DIGITS else None
