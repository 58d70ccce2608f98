"""What the MCP server works with: the runs of one installation, for the callers of one transport."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from mcp.server.context import ServerRequestContext

from agents.runner import Runner
from bus.identity.audit.recording import PROCESS, acting_with
from bus.journal import Journal
from bus.loop import ProcessLoop
from config.identity.contexts import DeclaredContext, working_for
from config.identity.principal import Principal
from config.logs import acting_for
from config.settings import Settings
from config.tracing import current_span_id, current_trace_id, traced

P = ParamSpec("P")
T = TypeVar("T")

Context = ServerRequestContext[Any, Any]
"""A request of a client, with its session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Acting:
    """Who sends a request."""

    principal: Principal
    credential: tuple[str, str] = PROCESS
    """Its kind and its id, as the audit log names them."""
    declared: DeclaredContext | None = None
    """What is declared of the runs that it starts; None: what the settings say."""
    url: str | None = None
    """The origin by which the client reaches the web process, for addresses in results; None: it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One entry point for MCP clients. Its functions block; the server calls them on other threads than the loop's."""

    runner: Runner
    caller: Callable[[Context], Acting]
    """Returns who sends a request; raises ``Unauthenticated`` for a credential that is not valid any more."""
    tools_of: Callable[[Collection[str]], list[dict[str, Any]]]
    """Returns the tools of these agents, in the form of ``journal.stores.tools.listed``."""
    is_detached: Callable[[str | None], bool]
    """Returns whether workers execute the runs of a queue; otherwise this process does."""
    has_one_client: bool = False
    """Whether it serves one client on a connection of its own, which may be notified at any time."""
    max_answer_bytes: int | None = None
    """Bytes that the output, the events or the messages of an answer may have; None: as many as there are."""

    @property
    def settings(self) -> Settings:
        return self.runner.settings

    @property
    def journal(self) -> Journal:
        return self.runner.journal

    @property
    def loop(self) -> ProcessLoop:
        return self.runner.journal.loop

    async def acting(self, context: Context) -> Acting:
        """Return who sends a request, as the credential is now."""
        return await self.loop.wait(self.caller, context)

    async def act(self, caller: Acting, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function that blocks; the audit log and log records name the caller for it."""
        trace_id, parent_span = current_trace_id(), current_span_id()

        def act() -> T:
            named = acting_for.set((caller.principal.tenant, caller.principal.id))
            used = acting_with.set(caller.credential)
            whom = caller.principal.tenant, caller.declared
            try:
                with traced(trace_id, parent_span=parent_span), working_for(*whom):
                    return function(*args, **kwargs)
            finally:
                acting_with.reset(used)
                acting_for.reset(named)

        return await self.loop.wait(act)
