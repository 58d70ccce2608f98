"""A server on stdio: its process, under a guard that ends every process beneath it, and its standard error.

The SDK's own transport leaves processes behind that the server started, and reads lines of any length. What a server
writes to its standard error is in this process's log: redacted, and no more than a person reads.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import anyio

from agents.tool_errors import McpServerDown
from agents.tools.isolation.guarded import end, ended, guarded_argv
from agents.tools.isolation.limits import kernel_limits
from agents.tools.mcp.connection.faults import McpFault, of_exit
from agents.tools.mcp.connection.lines import LineReader, LineWriter
from agents.tools.mcp.connection.traffic import Inbound, Outbound, Traffic, watched
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
