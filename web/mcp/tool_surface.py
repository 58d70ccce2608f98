"""The surface of tools: a call is checked and becomes a run, which is waited for, or left."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

import orjson
from mcp import MCPError
from mcp.types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, InputRequiredResult

from agents.errors import role_missing
from agents.handle import RunHandle
from bus.identity.envelope import CallEnvelope, SqlNonces, verify_golden_call_envelope
from bus.identity.errors import EnvelopeRefused
from bus.journal.clients import IdempotencyKey
from bus.journal.errors import RunUnknown
from config.errors import BadRequest
from config.identity.principal import Principal
from config.ids import canonical_digest
from config.text.names import did_you_mean
from config.tracing import change_trace
from web.auth.envelopes import SIGNED_WITH, signed_trace_id
from web.calls.bodies import parse_object
from web.calls.fields import Input, Maybe
from web.calls.parameters import require_key
from web.mcp.arguments import problems_of, read_arguments, require_fit, require_plain
from web.mcp.elicitation import Asking
from web.mcp.errors import code_and_sentence
from web.mcp.offers import OfferedTool, Offers
from web.mcp.results import refused, result_of, with_refusal, with_seed_names
from web.mcp.run_tools import RUN_TOOLS, RunTools
from web.mcp.service import Acting, Context, Service
from web.mcp.watching import Watched
from web.schemas.paths import ThreadName

log = logging.getLogger(__name__)

ENVELOPE, SIGNED = "callboard/envelope", "callboard/call"
METHOD = "tools/call"


class Envelopes:
    """Verifies the envelopes of one transport's calls, two members of a call's `_meta`: none keeps a call's bytes.

    The one is the envelope. The other is the text that it signs: the call's name and arguments as JSON. It has to say
    the same as the call does.
    """

    def __init__(self, service: Service) -> None:
        self._settings = service.settings
        self._keys = service.settings.envelope_key_map
        self._nonces = SqlNonces(lambda: service.journal.database)

    def verify(self, principal: Principal, params: CallToolRequestParams) -> CallEnvelope | None:
        """Return the envelope of a call, used up; None: it has none, and needs none. Blocks.

        Raises:
            EnvelopeRefused: it is not valid, signs another call, or is missing where one is required.
            CallboardError: the database does not answer; the call must not be made.
        """
        meta: dict[str, Any] = dict(params.meta or {})
        if not self._settings.require_envelope and not meta.keys() & {ENVELOPE, SIGNED}:
            return None
        try:
            return self._verified(principal, params, meta)
        except EnvelopeRefused as error:
            log.info("an envelope was refused: %s", error.facts["why"])
            raise

    def _verified(self, principal: Principal, params: CallToolRequestParams, meta: dict[str, Any]) -> CallEnvelope:
        text, signed = meta.get(ENVELOPE), meta.get(SIGNED, "")
        if ENVELOPE in meta and not (isinstance(text, str) and isinstance(signed, str) and _is_of(signed, params)):
            raise EnvelopeRefused("form")
        return verify_golden_call_envelope(
            text,
            keys=self._keys,
            nonces=self._nonces,
            audience=self._settings.envelope_audience_of(principal.tenant),
            method=METHOD,
            body=signed.encode(),
            now_s=time.time(),
        )


def _is_of(signed: str, params: CallToolRequestParams) -> bool:
    """Return whether the text says the name and the arguments of the call, and nothing else."""
    try:
        signed_call, call = parse_object(signed.encode()), {"name": params.name, "arguments": params.arguments or {}}
        return orjson.dumps(signed_call, option=orjson.OPT_SORT_KEYS) == orjson.dumps(call, option=orjson.OPT_SORT_KEYS)
    except (BadRequest, UnicodeEncodeError, TypeError):  # no JSON, or a value that no JSON of ours has
        return False


Answer = CallToolResult | InputRequiredResult


class AgentInput(Input):
    """What a call of an agent has."""

    input: str
    """The message."""
    thread_id: Maybe[ThreadName] = None
    """The conversation."""


IDEMPOTENCY_KEY = "callboard/idempotency_key"
"""The member of a call's `_meta` by which a repeated call is the same one; the client of MCP servers sends it, too."""


class ToolSurface:
    """Makes the calls of clients."""

    def __init__(self, service: Service, offers: Offers) -> None:
        self._service = service
        self._offers = offers
        self._run_tools = RunTools(service)
        self._envelopes = Envelopes(service)

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> Answer:
        """Return the result of a call, or how its run can be found again.

        A call that is refused has a result too, for the model to read; only a name that is none of the caller's tools
        is a protocol error.
        """
        try:
            return await self._called(context, params)
        except MCPError:
            raise
        except Exception as error:
            code, sentence = code_and_sentence(error)
            return refused(code, sentence, problems_of(error))

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
        schema = offer.mcp_tool.output_schema
        if params.request_state is not None:
            watched_run = await self._resumed(context, caller, params.request_state)
        else:
            envelope = await self._service.act(caller, self._envelopes.verify, caller.principal, params)
            if envelope is not None and (trace_id := signed_trace_id(envelope)) is not None:
                change_trace(trace_id)
            key_id = envelope.key_id if envelope is not None else None
            handle = await self._service.act(caller, self._start, offer, caller.principal, params, key_id)
            watched_run = Watched(self._service, context, caller, handle)
        starts = self._service.settings.mcp_capability_behavior == "start" or offer.agent.is_workflow
        wait_s = 0.0 if starts else self._service.settings.mcp_await_s
        answer = await self._answered(context, caller, params, watched_run, wait_s, schema=schema)
        if offer.agent.is_workflow and isinstance(answer, CallToolResult):
            return with_seed_names(answer)
        return answer

    async def _offer(self, caller: Acting, name: str) -> OfferedTool:
        offers = await self._service.act(caller, self._offers.of, caller.principal)
        if name not in offers:
            withheld = await self._service.act(caller, self._offers.withheld, caller.principal)
            if name in withheld:
                raise role_missing(name, withheld[name])
            offers = await self._offers.settled(caller)
        if name not in offers:
            names = [*offers, *RUN_TOOLS]
            sentence = (
                f"There is no tool '{name[:128]}'.{did_you_mean(name[:128], names)} tools/list has those there are."
            )
            raise MCPError(code=INVALID_PARAMS, message=sentence, data={"code": "tool_not_offered"})
        return offers[name]

    def _start(
        self, offer: OfferedTool, principal: Principal, params: CallToolRequestParams, signed_with: str | None
    ) -> RunHandle:
        """Accept the run of a call, or find that of the same call before. Blocks."""
        runner, agent, arguments = self._service.runner, offer.agent, params.arguments or {}
        common: dict[str, Any] = {
            "principal": principal,
            "detached": self._service.is_detached(agent.queue),
            "idempotency": _idempotency(params),
            "metadata": {SIGNED_WITH: signed_with} if signed_with is not None else None,
        }
        if offer.tool is not None:
            require_fit(offer.mcp_tool, arguments)
            return runner.call_tool(offer.tool, arguments, agent_id=agent.id, **common)
        if agent.is_workflow:
            require_fit(offer.mcp_tool, arguments)
            return runner.run_workflow(agent.id, arguments, **common)
        parameters = read_arguments(AgentInput, arguments)
        return runner.run(parameters.input, agent.id, thread_id=parameters.thread_id, **common)

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
        questions: list[dict[str, Any]] = []
        if params.request_state is not None:
            questions = await watched.questions()
            await asking.take(watched, params.input_responses or {}, questions)
            questions = await watched.questions()
        left_s = wait_s
        while left_s > 0:
            began_s = asyncio.get_running_loop().time()
            if not questions:
                questions = await watched.next_questions(left_s, stops=stops or asking.is_possible)
                left_s -= asyncio.get_running_loop().time() - began_s
            to_ask = asking.to_ask(questions) if asking.is_possible else []
            if to_ask and asking.is_modern:
                return asking.required(watched, to_ask)
            if not to_ask:
                break
            await asking.ask(watched, to_ask)
            questions = await watched.questions()
        result = await self._service.act(caller, result_of, self._service, caller, watched.handle.run_id, schema)
        return with_refusal(result, asking.refusals)


def _idempotency(params: CallToolRequestParams) -> IdempotencyKey | None:
    """Return the key of a call, if the client sent one.

    Raises:
        BadRequest: it is no key, or the arguments are no JSON that can be compared.
    """
    key = (params.meta or {}).get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str):
        raise BadRequest(f"`{IDEMPOTENCY_KEY}` in `_meta` has to be text.")
    try:
        digest = canonical_digest({"name": params.name, "arguments": params.arguments or {}})
    except TypeError as error:
        raise BadRequest(f"the arguments cannot be kept: {error}.") from error
    return IdempotencyKey(key=require_key(key), method="MCP", path="tools/call", body_digest=digest)
