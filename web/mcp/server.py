"""The server of the Model Context Protocol, for any transport of the SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, TypeVar

from mcp import MCPError
from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import INVALID_PARAMS, ListToolsResult, PaginatedRequestParams
from pydantic import ValidationError

from config.database.shared_secret import shared_secret
from config.settings.project import own_version
from config.tracing import (
    TRACEPARENT,
    current_trace,
    current_trace_id,
    new_trace_id,
    parent_span_of,
    trace_id_of,
    traced,
)
from web.mcp.changes import ChangeWatch, Notifications
from web.mcp.errors import answering
from web.mcp.offers import Offers
from web.mcp.resources import Resources
from web.mcp.run_tools import RUN_TOOLS
from web.mcp.service import Context, Service
from web.mcp.tool_surface import ToolSurface

TRACE = "callboard/trace_id"
"""The member of a result's `_meta` that has the trace id."""


async def with_trace(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Answer a request on its trace, and name that in the answer; a middleware of the SDK's server."""
    trace_id, parent_span = _trace(ctx)
    with traced(trace_id, parent_span=parent_span):
        try:
            answer = await call_next(ctx)
        except MCPError as error:
            raise _named(error) from error
        except ValidationError as error:  # the SDK's own sentence, since pydantic's repeats what was sent
            raise _named(MCPError(code=INVALID_PARAMS, message="Invalid request parameters")) from error
        if isinstance(answer, dict) and answer and ctx.request_id is not None:  # that of a ping has to be empty
            answer["_meta"] = {**answer.get("_meta", {}), TRACE: current_trace_id()}
        return answer


def _trace(context: Context) -> tuple[str, str | None]:
    """Return the trace id and the caller's span that the message names, otherwise those of its HTTP request, otherwise
    a new trace id.
    """
    header = (context.meta or {}).get(TRACEPARENT)
    if (named := trace_id_of(header)) is not None:
        return named, parent_span_of(header)
    current = current_trace()
    if current is None or current.trace_id is None:
        return new_trace_id(), None
    return current.trace_id, current.parent_span


def _named(error: MCPError) -> MCPError:
    """Return an error whose data have the trace id; data that are no object become `detail`."""
    error_data = error.error
    data: dict[str, Any] = (
        error_data.data if isinstance(error_data.data, dict) else {"detail": error_data.data} if error_data.data else {}
    )
    return MCPError(code=error_data.code, message=error_data.message, data={**data, "trace_id": current_trace_id()})


R = TypeVar("R")
NAME = "callboard"
NOTIFIES = NotificationOptions(tools_changed=True, resources_changed=True)
"""What a client of the handshake era is notified of, where it has a connection of its own."""
SECRET_NAME = "mcp_request_state"
INSTRUCTIONS = """\
Each tool is an agent, one of the agents' tools or a workflow, and each call is a run: it is recorded, and continues
when this client goes away. A result without the status 'succeeded' names the run_id; call run_status with it, with
wait_s to wait for the end. A workflow is only started, so run_status has its result. APPROVAL_REQUIRED means that a
person has to answer first. To continue a conversation with an agent, pass its thread_id on."""


def build_server(service: Service) -> Server[Any]:
    """Return a server for the callers of one transport; it keeps nothing of a client between two requests. Blocks."""
    offers = Offers(service, RUN_TOOLS)
    surface, resources = ToolSurface(service, offers), Resources(service)
    changes = ChangeWatch(service, offers, resources)
    notifications = Notifications(changes, resources)

    async def list_tools(context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        caller = await service.acting(context)
        by_name = await offers.settled(caller)
        return ListToolsResult(tools=[*(offer.mcp_tool for offer in by_name.values()), *RUN_TOOLS.values()])

    server: Server[Any] = Server(
        NAME,
        version=own_version(),
        title="Callboard",
        instructions=INSTRUCTIONS,
        lifespan=notifications.lifespan,
        on_list_tools=answering(_one_page(list_tools)),
        on_call_tool=surface.call_tool,
        on_list_resources=answering(_one_page(resources.listed)),
        on_list_resource_templates=answering(_one_page(resources.templates)),
        on_read_resource=answering(resources.read),
        on_subscriptions_listen=answering(changes.listen),
    )
    if service.has_one_client:
        notifications.register(server)
    secret = shared_secret(service.journal.database, SECRET_NAME)
    lasting_s = service.settings.approval_ttl_s
    bound_to = partial(_caller_name, service)
    security = RequestStateSecurity(keys=[secret], ttl=lasting_s, bind_principal=bound_to)
    server.middleware.append(with_trace)
    server.middleware.append(RequestStateBoundary(security, default_audience=service.settings.deployment))
    return server


def _one_page(
    listed: Callable[[Context, PaginatedRequestParams | None], Awaitable[R]],
) -> Callable[[Context, PaginatedRequestParams | None], Awaitable[R]]:
    """Return the handler of a list that has one page: no answer of it has a cursor, so each cursor is refused."""

    @wraps(listed)
    async def handled(context: Context, params: PaginatedRequestParams | None) -> R:
        if params is not None and params.cursor is not None:
            raise MCPError(
                code=INVALID_PARAMS, message="there is no such cursor: the list has one page. Leave `cursor` out."
            )
        return await listed(context, params)

    return handled


def _caller_name(service: Service, context: Context) -> str:
    """Return for whom a request's state is valid; the run that it names is looked up for the caller again."""
    principal = service.caller(context).principal
    return f"{principal.tenant}/{principal.id}"
