"""Serves one MCP client on standard input and output."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from types import FrameType, TracebackType
from typing import Any

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError

from agents.compatibility import LoadedAgent, try_load
from agents.process import Process, current_process
from agents.runner import Runner
from bus.identity.audit.recording import PROCESS
from bus.journal.stores import LoadedTool
from config.errors import SettingInvalid
from config.identity.contexts import narrowed
from config.identity.principal import Principal
from config.settings import Settings
from config.tracing import new_trace_id
from handlers.worker.tool_catalogue import loaded_tools
from web.auth.keys import KeyVerifier
from web.errors import Unauthenticated
from web.mcp.server import NOTIFIES, build_server
from web.mcp.service import Acting, Service


class OwnTools:
    """Finds the tools of agents; those that this process loads are kept while the definitions stay the same."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._loaded: dict[str, LoadedAgent | None] = {}
        """By the digest of the definition; None: it cannot be loaded."""

    def of(self, agent_ids: Collection[str]) -> list[dict[str, Any]]:
        """Return the tools of these agents, in the form of the catalogue."""
        journal = self._process.journal
        if journal.stores.workers.alive():
            return journal.stores.tools.listed(agent_ids)
        loaded = (self._load(agent_id) for agent_id in agent_ids)
        tools = loaded_tools(row for row in loaded if row is not None)
        return sorted((_shown(row) for row in tools), key=lambda row: (row["name"], row["digest"]))

    def _load(self, agent_id: str) -> LoadedAgent | None:
        digest = self._process.registry.get(agent_id).digest
        if digest not in self._loaded:
            agent = try_load(self._process, agent_id)
            if not isinstance(agent, tuple):
                log.warning("the tools of agent '%s' are left out: %s", agent_id, agent)
            self._loaded[digest] = agent if isinstance(agent, tuple) else None
        return self._loaded[digest]


def _shown(tool: LoadedTool) -> dict[str, Any]:
    facts = {name: getattr(tool, name) for name in ("name", "description", "input_schema", "effect", "timeout_s")}
    return facts | {"digest": tool.digest, "agents": sorted(tool.agents), **asdict(tool.metadata)}


log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Seconds between two looks whether this process executes a run still."""


def serve(runner: Runner) -> None:
    """Serve until the client closes standard input, and then finish the runs that this process executes itself.

    Raises:
        Unauthenticated: ``CALLBOARD_MCP_API_KEY`` is not valid.
    """
    service = stdio_service(runner)
    signal.signal(signal.SIGTERM, _leave)
    try:
        runner.journal.loop.run(_serve(service))
    except _Leaving:
        _finish(runner)
        runner.close()
        os._exit(0)  # a thread reads standard input, and would be waited for
    _finish(runner)


def stdio_service(runner: Runner) -> Service:
    """Return the service of this process: workers execute its runs, or itself where there are none.

    Raises:
        Unauthenticated: ``CALLBOARD_MCP_API_KEY`` is not valid.
        SettingInvalid: ``CALLBOARD_MCP_ROLES`` names a role that the principal does not have.
    """
    caller, settings = _caller(runner), runner.settings
    _require_roles(settings, caller()[0])
    return Service(
        runner=runner,
        caller=lambda _: _acting(settings, *caller()),
        tools_of=OwnTools(current_process(settings)).of,
        is_detached=lambda queue: bool(runner.journal.stores.workers.serving(queue)),
        has_one_client=True,
    )


def _caller(runner: Runner) -> Callable[[], tuple[Principal, tuple[str, str]]]:
    """Return what finds the principal and its credential, for each request again, since a key may be revoked.

    That raises ``Unauthenticated`` for a key that is not valid.
    """
    secret = runner.settings.mcp_api_key
    if secret is None:
        return lambda: (runner.principal, PROCESS)
    verifier = KeyVerifier(runner.journal)

    def caller() -> tuple[Principal, tuple[str, str]]:
        verified = verifier.caller(secret.get_secret_value())
        if verified is None:
            raise Unauthenticated(
                "CALLBOARD_MCP_API_KEY is no valid API key; `./callboard keys create NAME` makes one."
            )
        return verified.principal, (verified.credential.kind, verified.credential.id)

    return caller


def _acting(settings: Settings, principal: Principal, credential: tuple[str, str]) -> Acting:
    """Return who sends a request, with what the settings narrow of it and declare of its runs."""
    declared = settings.declared_context(principal.tenant)
    return Acting(
        principal=replace(principal, roles=narrowed(principal.roles, settings.mcp_role_set)),
        credential=credential,
        declared=replace(declared, initiator_id=settings.mcp_initiator_id, token_ref=settings.mcp_token_ref),
        url=settings.mcp_status_url or settings.public_url,
    )


def _require_roles(settings: Settings, principal: Principal) -> None:
    """Return if the settings name no role that the principal lacks: they narrow what it may do, and never widen it.

    Raises:
        SettingInvalid: they do.
    """
    missing = sorted((settings.mcp_role_set or frozenset()) - principal.roles)
    if missing:
        raise SettingInvalid(
            f"CALLBOARD_MCP_ROLES (or MCP_ROLES) names the role {missing[0]}, which '{principal.id}' does not have. "
            "Leave it out, or use a key that has it."
        )


async def _serve(service: Service) -> None:
    server = await service.loop.wait(build_server, service)
    try:
        async with stdio_server() as (incoming, outgoing):
            options = server.create_initialization_options(NOTIFIES)
            await server.run(AnsweredLines(incoming, outgoing), outgoing, options)
    except* BrokenPipeError:  # the client was killed before it had read everything
        log.info("the client closed standard output")


class _Leaving(BaseException):
    """SIGTERM asks this process to end."""


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise _Leaving


def _finish(runner: Runner) -> None:
    """Wait until this process executes no run. A client that has closed its end sends SIGTERM soon after.

    A worker resumes a run that waits for a person, once there is one.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    is_busy = True
    while is_busy:
        try:
            runner.settle(LOOK_S)
            return
        except TimeoutError:
            is_busy = runner.journal.owner.lease_manager.busy > 0
        except Exception as error:
            log.error("a run was not handled: %s", error)
            return


SENTENCE = "The line is no message of JSON-RPC 2.0: one JSON object in UTF-8 on one line, with `jsonrpc` and `method`."


class AnsweredLines:
    """The stream of a client's messages; what could not be read is answered by an error without an id."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def last_context(self) -> Any:
        """The context in which the last message was read; the SDK looks for it."""
        return self._incoming.last_context

    async def receive(self) -> SessionMessage:
        """Return the next message."""
        while isinstance(item := await self._incoming.receive(), Exception):
            error = ErrorData(code=PARSE_ERROR, message=SENTENCE, data={"trace_id": new_trace_id()})
            await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
        message: SessionMessage = item
        return message

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> AnsweredLines:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> AnsweredLines:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
