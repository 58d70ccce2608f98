"""Runs and threads as resources, as JSON."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import orjson
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bus.journal.errors import RunUnknown, ThreadUnknown
from config.errors import BadRequest
from config.identity.principal import Principal
from web.mcp.arguments import require_plain
from web.mcp.results import RUNS, THREADS, fitting, shortened, text_bytes
from web.mcp.service import Context, Service

LISTED = 50
"""Runs, and as many threads, that are listed; older ones are read by their ids."""
MAX_MESSAGES = 500
JSON = "application/json"
NOT_FOUND = -32002
"""The code of an unknown resource in the handshake era; since 2026-07-28 it is that of invalid parameters."""


class Resources:
    """The runs and threads that a caller sees."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def listed(self, context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Return the caller's newest runs and threads."""
        caller = await self._service.acting(context)
        return ListResourcesResult(resources=await self._service.act(caller, self._newest, caller.principal))

    async def templates(self, _context: Context, _params: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """Return how the address of a run and of a thread is made."""
        entries = [
            ResourceTemplate(name="run", uri_template=f"{RUNS}{{run_id}}", mime_type=JSON, description="One run."),
            ResourceTemplate(
                name="thread",
                uri_template=f"{THREADS}{{thread_id}}",
                mime_type=JSON,
                description="One conversation with its runs and messages.",
            ),
        ]
        return ListResourceTemplatesResult(resource_templates=entries)

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Return a run or a thread as JSON."""
        caller = await self._service.acting(context)
        try:
            document = await self._service.act(caller, self._found, caller.principal, params.uri)
        except (RunUnknown, ThreadUnknown) as error:
            code = INVALID_PARAMS if context.protocol_version in MODERN_PROTOCOL_VERSIONS else NOT_FOUND
            raise MCPError(code=code, message=error.public, data={"uri": params.uri, "code": error.code}) from error
        text = TextResourceContents(uri=params.uri, mime_type=JSON, text=orjson.dumps(document).decode())
        return ReadResourceResult(contents=[text])

    def state(self, principal: Principal, uri: str) -> dict[str, Any] | None:
        """Return a run, or a thread without its messages, which change with its runs; None where there is none."""
        try:
            require_plain(unquote(uri))
            if uri.startswith(THREADS):
                return self._service.journal.readers.threads.get(principal, unquote(uri.removeprefix(THREADS)))
            return self._service.journal.readers.runs.get(principal, uri.removeprefix(RUNS))
        except (BadRequest, RunUnknown, ThreadUnknown):
            return None

    def addresses(self, principal: Principal) -> list[str]:
        """Return the addresses of the resources that are listed."""
        return [str(resource.uri) for resource in self._newest(principal)]

    def _newest(self, principal: Principal) -> list[Resource]:
        runs = self._service.journal.readers.runs.newest(principal, limit=LISTED)
        threads = self._service.journal.readers.threads.newest(principal, limit=LISTED)
        of_runs = [
            Resource(
                uri=f"{RUNS}{run['run_id']}",
                name=run["run_id"],
                title=run["title"] or None,
                description=f"A run of {run['agent']}, {run['status']}.",
                mime_type=JSON,
            )
            for run in runs
        ]
        of_threads = [
            Resource(
                uri=f"{THREADS}{quote(thread['thread_id'], safe='')}",
                name=thread["thread_id"],
                title=thread["title"] or None,
                description=f"A conversation with {thread['agent']}.",
                mime_type=JSON,
            )
            for thread in threads
        ]
        return of_runs + of_threads

    def _found(self, principal: Principal, uri: str) -> dict[str, Any]:
        journal, max_bytes = self._service.journal, self._service.max_answer_bytes
        require_plain(unquote(uri))
        if uri.startswith(THREADS):
            thread_id = unquote(uri.removeprefix(THREADS))
            thread = journal.readers.threads.get(principal, thread_id)
            page, has_more = journal.readers.threads.message_page(
                principal, thread_id, after=(0, 0), limit=MAX_MESSAGES
            )
            around = thread | {"messages": [], "more_messages": True}
            messages = page if max_bytes is None else fitting(page, max_bytes - text_bytes(around))
            has_more |= len(messages) < len(page)
            thread |= {"messages": messages} | ({"more_messages": True} if has_more else {})
            return self._shortened(thread, f"/v1/threads/{quote(thread_id, safe='')}/messages")
        if uri.startswith(RUNS):
            run_id = uri.removeprefix(RUNS)
            return self._shortened(journal.readers.runs.get(principal, run_id), f"/v1/runs/{run_id}")
        raise RunUnknown(run_id=uri)

    def _shortened(self, document: dict[str, Any], path: str) -> dict[str, Any]:
        """Return a resource no larger than answers may be; ``path`` is where it is whole over HTTP."""
        max_bytes = self._service.max_answer_bytes
        return (
            document if max_bytes is None else shortened(document, max_bytes, f"GET {path} has all of it", text_bytes)
        )
