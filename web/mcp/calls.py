"""Calls of agents and tools: each is a run, which is waited for, or started and left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, InputRequiredResult
from pydantic import ValidationError

from agents.handle import RunHandle
from bus.journal import RunUnknown
from config.identity.principal import Principal
from config.spelling import did_you_mean
from web.calls.fields import Input, Maybe
from web.calls.refusals import refusal
from web.mcp.asking import Asking
from web.mcp.envelopes import Envelopes
from web.mcp.errors import require_plain, said
from web.mcp.offers import OfferedTool, Offers
from web.mcp.results import refused, result_of
from web.mcp.run_tools import RUN_TOOLS, RunTools
from web.mcp.service import Acting, Context, Service
from web.mcp.watching import Watched
from web.schemas.paths import ThreadName

Answer = CallToolResult | InputRequiredResult


class AgentInput(Input):
    """What a call of an agent has."""

    input: str
    """The message."""
    thread_id: Maybe[ThreadName] = None
    """The conversation."""


class Calls:
    """Makes the calls of clients."""

    def __init__(self, service: Service, offers: Offers) -> None:
        self._service = service
        self._offers = offers
        self._run_tools = RunTools(service)
        self._envelopes = Envelopes(service)

    async def call(self, context: Context, params: CallToolRequestParams) -> Answer:
        """Return the result of a call, or how its run can be found again.

        A call that is refused has a result too, for the model to read; only a name that is none of the caller's tools
        is a protocol error.
        """
        try:
            return await self._called(context, params)
        except MCPError:
            raise
        except Exception as error:
            return refused(*said(error))

    async def _called(self, context: Context, params: CallToolRequestParams) -> Answer:
        caller = await self._service.acting(context)
        arguments = params.arguments or {}
        require_plain(arguments)
        if params.name in RUN_TOOLS:
            watched = await self._run_tools.watched(context, caller, params.name, arguments)
            if isinstance(watched, CallToolResult):
                return watched
            return await self._answered(context, caller, params, watched.run, watched.wait_s, stops=False)
        offer = await self._offer(caller, params.name)
        schema = offer.shown.output_schema
        if params.request_state is not None:
            watched_run = await self._resumed(context, caller, params.request_state)
        else:
            await self._service.act(caller, self._envelopes.verify, caller.principal, params)
            handle = await self._service.act(caller, self._start, offer, caller.principal, arguments)
            watched_run = Watched(self._service, context, caller, handle)
        starts = self._service.settings.mcp_capability_behavior == "start"
        wait_s = 0.0 if starts else self._service.settings.mcp_await_s
        return await self._answered(context, caller, params, watched_run, wait_s, schema=schema)

    async def _offer(self, caller: Acting, name: str) -> OfferedTool:
        offers = await self._service.act(caller, self._offers.of, caller.principal)
        if name not in offers:
            known = [*offers, *RUN_TOOLS]
            sentence = (
                f"There is no tool '{name[:128]}'.{did_you_mean(name[:128], known)} tools/list has those there are."
            )
            raise MCPError(code=INVALID_PARAMS, message=sentence, data={"code": "tool_not_offered"})
        return offers[name]

    def _start(self, offer: OfferedTool, principal: Principal, arguments: Mapping[str, Any]) -> RunHandle:
        """Accept the run of a call. Blocks."""
        runner, agent = self._service.runner, offer.agent
        detached = self._service.is_detached(agent.queue)
        if offer.tool is not None:
            return runner.call_tool(offer.tool, arguments, agent_id=agent.id, principal=principal, detached=detached)
        try:
            given = AgentInput.model_validate(dict(arguments))
        except ValidationError as error:
            raise refusal("argument", AgentInput, error) from error
        return runner.run(given.input, agent.id, thread_id=given.thread_id, principal=principal, detached=detached)

    async def _resumed(self, context: Context, caller: Acting, state: str) -> Watched:
        """Return the run of a request that is repeated with answers; the middleware has verified the state."""
        run_id, _, cursor = state.partition(" ")
        if not cursor.isdecimal():
            raise RunUnknown(run_id=run_id)
        handle = await self._service.act(caller, self._service.runner.handle, run_id, caller.principal)
        return Watched(self._service, context, caller, handle, int(cursor))

    async def _answered(
        self,
        context: Context,
        caller: Acting,
        params: CallToolRequestParams,
        watched: Watched,
        wait_s: float,
        *,
        stops: bool = True,
        schema: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Wait for the run's end as long as is allowed, ask its questions, and return its state."""
        asking = Asking(self._service, context, caller)
        asked: list[dict[str, Any]] = []
        if params.request_state is not None:
            asked = await watched.questions()
            await asking.take(watched, params.input_responses or {}, asked)
            asked = await watched.questions()
        left_s = wait_s
        while left_s > 0:
            began_s = asyncio.get_running_loop().time()
            if not asked:
                asked = await watched.next_questions(left_s, stops=stops or asking.is_possible)
                left_s -= asyncio.get_running_loop().time() - began_s
            to_ask = asking.to_ask(asked) if asking.is_possible else []
            if to_ask and asking.is_modern:
                return asking.required(watched, to_ask)
            if not to_ask:
                break
            await asking.ask(watched, to_ask)
            asked = await watched.questions()
        return await self._service.act(caller, result_of, self._service, caller, watched.handle.run_id, schema)
