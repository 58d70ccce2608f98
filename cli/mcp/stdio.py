"""Serves one MCP client on standard input and output."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from types import FrameType

from mcp.server.stdio import stdio_server

from agents.process import current_process
from agents.runner import Runner
from cli.mcp.own_tools import OwnTools
from web.auth.keys import KeyVerifier
from web.errors import Unauthenticated
from web.mcp.server import build_server
from web.mcp.service import Acting, Service

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
    """
    caller = _caller(runner)
    caller()
    return Service(
        runner=runner,
        caller=lambda _: caller(),
        tools_of=OwnTools(current_process(runner.settings)).of,
        is_detached=lambda queue: bool(runner.journal.workers.serving(queue)),
    )


def _caller(runner: Runner) -> Callable[[], Acting]:
    """Return what finds the principal: it is looked up for each request, since a key may be revoked."""
    secret, url = runner.settings.mcp_api_key, runner.settings.public_url
    if secret is None:
        return lambda: Acting(principal=runner.principal, url=url)
    verifier = KeyVerifier(runner.journal)

    def caller() -> Acting:
        found = verifier.caller(secret.get_secret_value())
        if found is None:
            raise Unauthenticated(
                "CALLBOARD_MCP_API_KEY is no valid API key; `./callboard keys create NAME` makes one."
            )
        credential = found.credential.kind, found.credential.id
        return Acting(principal=found.principal, credential=credential, url=url)

    return caller


async def _serve(service: Service) -> None:
    server = await service.loop.wait(build_server, service)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


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
            is_busy = runner.journal.lease_manager.busy > 0
        except Exception as error:
            log.error("a run was not handled: %s", error)
            return
