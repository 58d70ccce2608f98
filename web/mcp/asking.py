"""Asks the user of a client the questions of a run, where the client can show them and the caller may answer.

A client of the handshake era is asked during the call. One of 2026-07-28 gets the questions as the result of its
request, and repeats the request with the answers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mcp import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bus.journal import ApprovalDecided, ApprovalOver, ApprovalUnknown
from config.errors import CallboardError
from config.identity.principal import Reach, Verb
from web.mcp.errors import said
from web.mcp.questions import decision_of, form_of, is_showable, message_of
from web.mcp.service import Acting, Context, Service
from web.mcp.watching import Watched

log = logging.getLogger(__name__)

Question = Mapping[str, Any]


class Asking:
    """The questions of one request."""

    def __init__(self, service: Service, context: Context, caller: Acting) -> None:
        self._service = service
        self._context = context
        self._caller = caller
        self.is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._left_open: set[str] = set()
        self.refusals: dict[str, str] = {}
        """Why an answer was not taken, by the id of its question."""

    @property
    def is_possible(self) -> bool:
        """Whether the client can show forms, and the caller may answer questions of its own runs."""
        capabilities = self._context.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        shows_forms = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
        return shows_forms and self._caller.principal.reach(Verb.DECIDE) is not Reach.NONE

    def to_ask(self, asked: Sequence[Question]) -> list[Question]:
        """Return the questions that the user can be asked, and has not left open in this request."""
        return [one for one in asked if is_showable(one) and one["approval_id"] not in self._left_open]

    def required(self, watched: Watched, asked: Sequence[Question]) -> InputRequiredResult:
        """Return the questions as the result of the request; the state says where it continues."""
        requests = {one["approval_id"]: ElicitRequest(params=_params(one)) for one in asked}
        return InputRequiredResult(
            input_requests=dict(requests), request_state=f"{watched.handle.run_id} {watched.cursor}"
        )

    async def ask(self, watched: Watched, asked: Sequence[Question]) -> None:
        """Ask the questions one after the other, and pass the answers on."""
        for question in asked:
            answer = None
            try:
                answer = await self._context.session.elicit_form(
                    message_of(question), form_of(question), related_request_id=self._context.request_id
                )
            except MCPError as error:
                log.info("a client did not take a question: %s", error.error.message)
            await self._pass_on(watched, question, answer)

    async def take(self, watched: Watched, answers: Mapping[str, Any], asked: Collection[Question]) -> None:
        """Pass on the answers that a repeated request has."""
        for question in asked:
            answer = answers.get(question["approval_id"])
            await self._pass_on(watched, question, answer if isinstance(answer, ElicitResult) else None)

    async def _pass_on(self, watched: Watched, question: Question, answer: ElicitResult | None) -> None:
        decision = decision_of(question, answer) if answer is not None else None
        if decision is None and answer is not None and answer.action == "accept":
            sentence = f"the decision is none of these: {', '.join(question['decisions'])}."
            self.refusals[question["approval_id"]] = sentence
        try:
            if decision is not None:
                await self._service.act(self._caller, watched.handle.decide, question["approval_id"], decision)
                return
        except (ApprovalDecided, ApprovalOver, ApprovalUnknown):
            return  # another client was quicker, or the run has ended
        except CallboardError as error:
            log.info("an answer was refused: %s", error, extra={"run_id": watched.handle.run_id})
            self.refusals[question["approval_id"]] = said(error)[1]
        self._left_open.add(question["approval_id"])


def _params(question: Question) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message=message_of(question), requested_schema=form_of(question))
