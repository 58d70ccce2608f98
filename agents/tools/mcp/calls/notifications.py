"""What a server sends while calls are under way: progress, log messages and questions, for the runs of the calls.

A progress message names its call. Of a log message, over HTTP the stream that carries it says whose it is; on stdio
nothing does, so that it is that of the only call under way. One of several calls goes into the worker's log, because
the log of another run is not for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import orjson
from mcp import ClientSession
from mcp.client.session import ClientRequestContext
from mcp.types import (
    INVALID_REQUEST,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    FormElicitationCapability,
    Implementation,
    InputResponse,
    LoggingMessageNotificationParams,
    SamplingCapability,
    UrlElicitationCapability,
)

from agents.tools.call_context import LEVELS, MAX_EXAMINED, CallReports
from agents.tools.mcp.connection.stdio import ErrorLog
from agents.tools.mcp.connection.traffic import Inbound, Outbound
from config.definitions.mcp.server import McpServerDefinition
from config.settings.project import own_version

OFF: Final = "off"
"""The level of a server of which no log message is wanted."""


class OpenCall:
    """A call that a server carries out, and where its notifications go."""

    responses: dict[str, InputResponse] | None = None
    """What the server is given that it asked for, by its own keys."""
    state: str | None = None
    """The state that it gave with its questions."""

    def __init__(self, reports: CallReports | None = None) -> None:
        self._reports = reports

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Report how far it is."""
        if self._reports is not None:
            self._reports.progress(progress, total, message or "")

    async def elicited(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Return the answer of a person whom the server asks during the call; here there is none."""
        return ElicitResult(action="decline")

    async def sampled(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Return what a model answers that the server asks during the call; here there is none."""
        return ErrorData(code=INVALID_REQUEST, message="Sampling not supported")

    def logged(self, level: str, text: str, logger: str) -> None:
        """Report a log message."""
        if self._reports is not None:
            self._reports.log(level, text, logger)


_own: ContextVar[OpenCall | None] = ContextVar("callboard_mcp_call", default=None)


class OpenCalls:
    """The calls of one session that are under way."""

    def __init__(self) -> None:
        self._open: set[OpenCall] = set()

    @contextmanager
    def under_way(self, call: OpenCall) -> Iterator[None]:
        """Count the call, and mark what this task sends and gets over HTTP as its own."""
        self._open.add(call)
        marked = _own.set(call)
        try:
            yield
        finally:
            _own.reset(marked)
            self._open.discard(call)

    def __len__(self) -> int:
        return len(self._open)

    def whose(self) -> OpenCall | None:
        """Return the call of the message that this task handles; None where that is not known."""
        call = _own.get()
        if call is not None:
            return call if call in self._open else None
        return next(iter(self._open)) if len(self._open) == 1 else None


class McpServerLog:
    """The log messages of one session, from its level on."""

    def __init__(self, server: str, level: str, calls: OpenCalls) -> None:
        self._wanted = LEVELS[LEVELS.index(level) :] if level != OFF else ()
        self._calls = calls
        self._others = ErrorLog(server)

    def note(self, text: str) -> None:
        """Add a line to the worker's log, of which there are few a minute."""
        self._others.data_received(text.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n")

    async def logged(self, params: LoggingMessageNotificationParams) -> None:
        """Add a message to the log of its call's run, or else to the worker's."""
        if params.level not in self._wanted:
            return
        text, logger = _text(params.data), params.logger or ""
        call = self._calls.whose()
        if call is not None:
            call.logged(params.level, text, logger)
        else:
            self.note(f"{params.level} {logger[:80]} {text}")


def _text(data: Any) -> str:
    """Return the start of what was logged, which may be any JSON."""
    if isinstance(data, str):
        return data[:MAX_EXAMINED]
    try:
        return orjson.dumps(data).decode()[:MAX_EXAMINED]
    except (TypeError, ValueError):  # a number beyond 64 bits, or half a surrogate pair
        return repr(data)[:MAX_EXAMINED]


class SdkSession(ClientSession):
    """A session that offers what the server's file allows.

    Without the SDK's check of results: the server's own schemas could keep the loop busy for ever.
    """

    def __init__(
        self, server: McpServerDefinition, streams: tuple[Inbound, Outbound], calls: OpenCalls, message_handler: Any
    ) -> None:
        self._server, self._calls = server, calls
        self._log = McpServerLog(server.name, server.log_level, calls)
        super().__init__(
            *streams,
            client_info=client_info(),
            message_handler=message_handler,
            logging_callback=self._log.logged,
            elicitation_callback=self._elicited,
            sampling_callback=self._sampled,
            log_level=None if server.log_level == OFF else server.log_level,
        )

    def _build_capabilities(self, version: str) -> ClientCapabilities:
        both = ElicitationCapability(form=FormElicitationCapability(), url=UrlElicitationCapability())
        return ClientCapabilities(
            elicitation=both if self._server.elicitation != "never" else None,
            sampling=SamplingCapability() if self._server.sampling.allowed else None,
        )

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Accept any result; the caller checks it with ``config.definitions.schemas.json_schema``."""

    async def _elicited(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Answer a question that a server of before 2026 asks during a call."""
        call = self._calls.whose()
        if call is not None:
            return await call.elicited(params)
        self._log.note(f"asks a person, and of {len(self._calls)} calls it is not known which one asks")
        return ElicitResult(action="cancel")

    async def _sampled(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Answer a request for a model's text that a server of before 2026 sends during a call."""
        call = self._calls.whose()
        if call is not None:
            return await call.sampled(params)
        self._log.note(f"asks a model, and of {len(self._calls)} calls it is not known which one asks")
        return ErrorData(code=INVALID_REQUEST, message="it is not known in which call this is asked")


def client_info() -> Implementation:
    """Return the name and version that servers get."""
    return Implementation(name="callboard", version=own_version())
