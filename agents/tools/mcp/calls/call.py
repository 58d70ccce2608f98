"""One call of a server's tool, with what the server wants to know before it answers.

A server of 2026 answers with what it needs, and is called again with that and with the state that it gave. An older one
asks while it works: its question is dismissed, a person is asked, and the call is made again from its beginning, where
the same question gets the answer. In both cases the run waits without a worker.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.types import (
    INVALID_PARAMS,
    URL_ELICITATION_REQUIRED,
    AudioContent,
    CallToolResult,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationRequiredErrorData,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import TypeAdapter, ValidationError

from agents.tools.call_context import ToolContext
from agents.tools.mcp.calls.elicitation import Declined, Elicited, ServerSampler, elicited
from agents.tools.mcp.calls.notifications import OpenCall
from config.definitions.mcp.server import McpServerDefinition
from config.effects import Effect
from config.errors import ToolFailed
from config.redaction import redact_start
from config.text.visible import visible

MAX_ROUNDS = 10
"""How often a server may want something before it answers a call."""
MAX_REQUESTS = 10
"""Requests of one round, or of one call of an older server, that are looked at."""
MAX_STATE = 64 * 1024
"""Characters of a server's state, and of what is kept with a question: its requests with that state."""
POLL_S, LONGEST_POLL_S = 0.25, 5.0
"""The first and the longest pause before a server is asked again that wants nothing but time."""
NOT_AGAIN = (
    "a server of before 2026 has to be called again with the answer, and what this tool does may then be done twice; "
    "where it asks before it does anything, write `elicitation: always` in the server's file"
)
Send = Callable[[], Awaitable[CallToolResult | InputRequiredResult]]
_REQUESTS: TypeAdapter[dict[str, InputRequest]] = TypeAdapter(dict[str, InputRequest])


@dataclass(frozen=True, slots=True)
class InputRound:
    """What a server wanted to know at once, and the state with which it is called again."""

    number: int
    """From 1."""
    requests: Mapping[str, InputRequest]
    state: str | None

    @property
    def json(self) -> str:
        """All of it as text, to be kept with a question; numbers may have more than 64 bits."""
        requests = _REQUESTS.dump_python(dict(self.requests), by_alias=True, mode="json", exclude_none=True)
        round_data = {"number": self.number, "requests": requests, "state": self.state}
        return json.dumps(round_data, ensure_ascii=False, separators=(",", ":"))


def round_of(text: str | None) -> InputRound | None:
    """Return the round that was kept as ``InputRound.json``; None where there is none."""
    if text is None:
        return None
    round_data = json.loads(text)
    return InputRound(
        round_data["number"], _REQUESTS.validate_python(round_data["requests"], by_name=False), round_data["state"]
    )


class ServerToolCall(OpenCall):
    """A call whose server may ask a person."""

    def __init__(self, server: McpServerDefinition, context: ToolContext, effect: Effect) -> None:
        super().__init__(context.reports)
        self._server, self._context = server, context
        self._may_be_repeated = effect is not Effect.UNSAFE or server.elicitation == "always"
        self._dismissed: Elicited | None = None
        self._requests = 0
        self._sampler = ServerSampler(server.sampling, context.sample)

    async def made(self, send: Send) -> CallToolResult:
        """Return the server's answer; ``send`` makes the call with this call's ``responses`` and ``state``.

        Raises:
            QuestionAsked: a person has to answer first; with the answer the call is made again.
            ToolFailed: the server wants what it cannot get.
            as ``send``.
        """
        number, outcome = await self._first(send)
        pause_s = POLL_S
        while isinstance(outcome, InputRequiredResult):
            if outcome.input_requests:
                number += 1
                await self._fill_in(InputRound(number, outcome.input_requests, outcome.request_state))
            else:
                await asyncio.sleep(pause_s)  # the call's time ends it
                pause_s = min(2 * pause_s, LONGEST_POLL_S)
                self.responses, self.state = None, outcome.request_state
            outcome = await send()
        return outcome

    async def _first(self, send: Send) -> tuple[int, CallToolResult | InputRequiredResult]:
        """Begin the call, or continue it with what a person has answered; return the number of its round, too."""
        pending_round = round_of(self._context.state)
        if pending_round is None:
            return 0, await self._dismissing(send)
        await self._fill_in(pending_round)
        try:
            return pending_round.number, await send()
        except ToolFailed as error:
            if error.facts.get("code") != INVALID_PARAMS:
                raise
        # Another process of the server may not know the state: it asks again, and gets what was answered.
        self.responses = self.state = None
        return 0, await self._dismissing(send)

    async def _dismissing(self, send: Send) -> CallToolResult | InputRequiredResult:
        """Make the call, and ask a person what the server asked meanwhile; then its answer says nothing."""
        try:
            outcome = await send()
        except ToolFailed as error:
            self._ask_what_was_dismissed()
            self._ask_for_addresses(error)
            raise
        self._ask_what_was_dismissed()
        return outcome

    def _ask_what_was_dismissed(self) -> None:
        if self._dismissed is not None:
            self._context.ask(self._dismissed.form, self._dismissed.text)

    def _ask_for_addresses(self, refusal: ToolFailed) -> None:
        """Ask a person to open what an older server wants opened before it takes the call, once for each address."""
        if refusal.facts.get("code") != URL_ELICITATION_REQUIRED or self._server.elicitation == "never":
            return
        try:
            requirement = ElicitationRequiredErrorData.model_validate(refusal.facts.get("data"), by_name=False)
        except ValidationError:
            return
        for params in requirement.elicitations[:MAX_REQUESTS]:
            try:
                question = elicited(self._server.name, params)
            except Declined as error:
                self._declined(str(error))
                return
            self._context.ask(question.form, question.text)

    # --- of 2026

    async def _fill_in(self, input_round: InputRound) -> None:
        """Set the responses and the state with which the server is called next.

        Raises:
            QuestionAsked, ToolFailed: see ``made``.
        """
        if (
            len(input_round.requests) > MAX_REQUESTS
            or input_round.number > MAX_ROUNDS
            or len(input_round.state or "") > MAX_STATE
        ):
            raise self._asks_too_much()
        responses: dict[str, InputResponse] = {}
        for key, request in input_round.requests.items():
            if isinstance(request, ElicitRequest):
                responses[key] = self._of_a_person(request.params, input_round)
        for key, request in input_round.requests.items():  # once a person has answered everything
            if not isinstance(request, ElicitRequest):
                responses[key] = await self._of_a_model(request)
        self.responses, self.state = responses, input_round.state

    def _of_a_person(self, params: ElicitRequestParams, input_round: InputRound) -> ElicitResult:
        if self._server.elicitation == "never":
            return self._declined("its file says `elicitation: never`")
        try:
            question = elicited(self._server.name, params, input_round.number)
        except Declined as error:
            return self._declined(str(error))
        state = input_round.json
        if len(state) > MAX_STATE:
            raise self._asks_too_much()
        return question.result(self._context.ask(question.form, question.text, state=state))

    def _asks_too_much(self) -> ToolFailed:
        return ToolFailed(f"the MCP server {self._server.name} asks too much before it answers the call.")

    async def _of_a_model(self, request: InputRequest) -> CreateMessageResult:
        if not isinstance(request, CreateMessageRequest):
            raise ToolFailed(f"the MCP server {self._server.name} asks for what it does not get: {request.method}.")
        answer = await self.sampled(request.params)
        if isinstance(answer, ErrorData):
            raise ToolFailed(f"the MCP server {self._server.name} asks a model, and gets no answer: {answer.message}.")
        return answer

    # --- before

    async def elicited(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Return the answer that a person has given; without one dismiss the question, so that a person is asked."""
        self._requests += 1
        if self._server.elicitation == "never" or self._requests > MAX_REQUESTS:
            return ElicitResult(action="decline")
        try:
            question = elicited(self._server.name, params)
        except Declined as error:
            return self._declined(str(error))
        answer = self._context.answer_to(question.form, question.text)
        if answer is not None:
            return question.result(answer)
        if not self._may_be_repeated:
            self._declined(NOT_AGAIN)
        else:
            self._dismissed = self._dismissed or question
        return ElicitResult(action="cancel")

    async def sampled(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Return what the run's model answers, and say in the run's log that it was asked, or why not."""
        answer = await self._sampler.answer(params)
        message = answer.message if isinstance(answer, ErrorData) else "it was answered"
        level = "warning" if isinstance(answer, ErrorData) else "info"
        self.logged(level, f"The MCP server {self._server.name} asks the run's model: {message}.", "callboard")
        return answer

    def _declined(self, reason: str) -> ElicitResult:
        text = f"The MCP server {self._server.name} asks a person, and no person is asked: {reason}."
        self.logged("warning", text, "callboard")
        return ElicitResult(action="decline")


# --- the answer as a tool's result


MAX_MESSAGE = 2000
"""Characters of a failure's text that the model gets."""


def to_value(answer: CallToolResult) -> Any:
    """Return the structured content, or the texts, of an answer; of pictures and sounds what they are.

    Raises:
        ToolFailed: the server says that the call failed.
    """
    if answer.is_error:
        texts = [item.text for item in answer.content if isinstance(item, TextContent)]
        raise ToolFailed(visible(redact_start("\n".join(texts) or "the call failed without a text", MAX_MESSAGE)))
    if answer.structured_content is not None:
        return answer.structured_content
    parts = [to_part(item) for item in answer.content]
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(parts)
    return parts


def to_part(item: ContentBlock) -> Any:
    if isinstance(item, TextContent):
        return item.text
    if isinstance(item, ImageContent | AudioContent):
        size = len(item.data) * 3 // 4
        return {"type": item.type, "mime_type": item.mime_type, "note": f"{size:,} bytes, which are not shown"}
    if isinstance(item, ResourceLink):
        return {"type": "resource_link", "uri": str(item.uri), "name": item.name}
    inner = item.resource
    text = {"text": inner.text} if isinstance(inner, TextResourceContents) else {"note": "it is not shown"}
    return {"type": "resource", "uri": str(inner.uri)} | text
