"""The trace id of each request: its log records and its run have it, and so have its answer and its refusal."""

from __future__ import annotations

from typing import Any

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.types import INVALID_PARAMS
from pydantic import ValidationError

from config.tracing import TRACEPARENT, current_trace_id, new_trace_id, trace_id_of, traced
from web.mcp.service import Context

TRACE = "callboard/trace_id"
"""The member of a result's `_meta` that has the trace id."""


async def with_trace(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Answer a request on its trace, and name that in the answer; a middleware of the SDK's server."""
    with traced(_trace_id(ctx)):
        try:
            answer = await call_next(ctx)
        except MCPError as error:
            raise _named(error) from error
        except ValidationError as error:  # the SDK's own sentence, since pydantic's repeats what was sent
            raise _named(MCPError(code=INVALID_PARAMS, message="Invalid request parameters")) from error
        if isinstance(answer, dict) and answer and ctx.request_id is not None:  # that of a ping has to be empty
            answer["_meta"] = {**answer.get("_meta", {}), TRACE: current_trace_id()}
        return answer


def _trace_id(context: Context) -> str:
    """Return the trace id that the message names, otherwise that of its HTTP request, otherwise a new one."""
    parent = (context.meta or {}).get(TRACEPARENT)
    named = trace_id_of(parent) if isinstance(parent, str) else None
    return named or current_trace_id() or new_trace_id()


def _named(error: MCPError) -> MCPError:
    """Return an error whose data have the trace id; data that are no object become `detail`."""
    found = error.error
    data: dict[str, Any] = found.data if isinstance(found.data, dict) else {"detail": found.data} if found.data else {}
    return MCPError(code=found.code, message=found.message, data={**data, "trace_id": current_trace_id()})
