"""Asks the user of a client the questions of a run, where the client can show them and the caller may answer.

A client of the handshake era is asked during the call. One of 2026-07-28 gets the questions as the result of its
request, and repeats the request with the answers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from mcp import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bus.journal.approvals import Decision
from bus.journal.errors import ApprovalDecided, ApprovalOver, ApprovalUnknown
from config.errors import CallboardError
from config.identity.principal import Reach, Verb
from config.text.visible import visible
from web.mcp.errors import code_and_sentence
from web.mcp.service import Acting, Context, Service
from web.mcp.watching import Watched

MEANINGS = {
    "approve": "make the call with exactly these arguments",
    "reject": "do not make the call",
    "run_again": "make the call once more; if it took effect before, it takes effect twice",
    "take_as_done": "do not make the call again",
    "fail": "end the run as failed",
}
MAX_ARGUMENTS = 4000
"""Characters of a call's arguments in a message; a person who approves has to see all of them."""
_OF_TYPE = {
    "string": {"minLength", "maxLength", "format", "enum", "enumNames"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "boolean": set[str](),
}
_OF_MANY = {"minItems", "maxItems"}
_OF_ALL = {"type", "title", "description", "default"}
_FORMATS = {"email", "uri", "date", "date-time"}


def is_showable(question: Mapping[str, Any]) -> bool:
    """Return whether a client can show a question whole: those for several persons, and long calls, it cannot."""
    return question["approvers"] == 1 and len(_arguments(question)) <= MAX_ARGUMENTS


def message_of(question: Mapping[str, Any]) -> str:
    """Return what a person reads before answering: the exact call, and why it is asked about."""
    call = f"{question['name']}({_arguments(question)})"
    until = f"\nThe question is open until {question['expires_at'][:16].replace('T', ' ')} UTC."
    return f"{question['reason']}\n\n{visible(call)}{until}"


def form_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of the answer, in the part of JSON Schema that elicitations have."""
    if "answer" in question["decisions"]:
        return _flat(question.get("input_schema") or {}) or _as_text(question.get("input_schema") or {})
    meanings = "; ".join(
        f"{decision}: {MEANINGS[decision]}" for decision in question["decisions"] if decision in MEANINGS
    )
    decision = {"type": "string", "title": "Decision", "enum": list(question["decisions"]), "description": meanings}
    message = {"type": "string", "title": "Message", "maxLength": Decision.MAX_MESSAGE_CHARS}
    message["description"] = "A comment for the log; with reject the agent gets it too."
    return {"type": "object", "properties": {"decision": decision, "message": message}, "required": ["decision"]}


def decision_of(question: Mapping[str, Any], answer: ElicitResult) -> Decision | None:
    """Return what the user decided; None where the question is left open."""
    if answer.action == "decline" and "reject" in question["decisions"]:
        return Decision(decision="reject", digest=question["digest"])
    if answer.action != "accept":
        return None
    content = answer.content or {}
    if "answer" in question["decisions"]:
        return Decision(decision="answer", result=_filled_in(question, content))
    decision, message = content.get("decision"), content.get("message")
    if decision not in question["decisions"]:
        return None
    comment = message if isinstance(message, str) and message else None
    return Decision(decision=str(decision), message=comment, digest=question["digest"])


def _filled_in(question: Mapping[str, Any], content: Mapping[str, Any]) -> Any:
    values = {name: value for name, value in content.items() if value is not None}
    if _flat(question.get("input_schema") or {}) is not None:
        return values
    try:
        return orjson.loads(str(values.get("answer", "")))
    except orjson.JSONDecodeError:
        return values.get("answer")  # the form's schema says what is wrong


def _arguments(question: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={orjson.dumps(value).decode()}" for name, value in question["arguments"].items())


def _flat(form: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a form for an elicitation, or None if it has a field that elicitations do not have."""
    fields = {name: _field(schema) for name, schema in form.get("properties", {}).items()}
    visible_fields = {name: field for name, field in fields.items() if field is not None}
    if len(visible_fields) != len(fields) or not visible_fields:
        return None
    return {"type": "object", "properties": visible_fields, "required": list(form.get("required", ()))}


def _field(schema: Any) -> dict[str, Any] | None:
    if not isinstance(schema, Mapping):
        return None
    kind, items = schema.get("type"), schema.get("items")
    choices = _choices(items, "anyOf") if kind == "array" else _choices(schema, "oneOf")
    if kind == "array":
        field = {name: schema[name] for name in (_OF_ALL | _OF_MANY) & schema.keys()}
        return None if choices is None else field | {"items": choices}
    if kind not in _OF_TYPE or (choices is None and not {"enum", "oneOf"}.isdisjoint(schema)):
        return None
    field = {name: schema[name] for name in (_OF_ALL | _OF_TYPE[kind]) & schema.keys()} | (choices or {})
    if field.get("format", "email") not in _FORMATS:
        del field["format"]
    return field


def _choices(schema: Any, titled: str) -> dict[str, Any] | None:
    """Return the texts to choose from, as elicitations have them; ``titled`` is the keyword of those with titles."""
    if not isinstance(schema, Mapping):
        return None
    plain, named = schema.get("enum"), schema.get(titled)
    if isinstance(plain, list) and all(isinstance(choice, str) for choice in plain):
        return {"type": "string", "enum": list(plain)}
    if not isinstance(named, list) or not named:
        return None
    pairs = [(choice.get("const"), choice.get("title")) for choice in named if isinstance(choice, Mapping)]
    if len(pairs) < len(named) or not all(isinstance(text, str) for pair in pairs for text in pair):
        return None
    return {titled: [{"const": const, "title": title} for const, title in pairs]}


def _as_text(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form of one text: the answer as JSON."""
    answer = {"type": "string", "title": "Answer", "description": f"JSON that fits {orjson.dumps(form).decode()}"}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


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

    def to_ask(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions that the user can be asked, and has not left open in this request."""
        return [
            question
            for question in questions
            if is_showable(question) and question["approval_id"] not in self._left_open
        ]

    def required(self, watched: Watched, questions: Sequence[Question]) -> InputRequiredResult:
        """Return the questions as the result of the request; the state says where it continues."""
        requests = {question["approval_id"]: ElicitRequest(params=_params(question)) for question in questions}
        return InputRequiredResult(
            input_requests=dict(requests), request_state=f"{watched.handle.run_id} {watched.cursor}"
        )

    async def ask(self, watched: Watched, questions: Sequence[Question]) -> None:
        """Ask the questions one after the other, and pass the answers on."""
        for question in questions:
            answer = None
            try:
                answer = await self._context.session.elicit_form(
                    message_of(question), form_of(question), related_request_id=self._context.request_id
                )
            except MCPError as error:
                log.info("a client did not take a question: %s", error.error.message)
            await self._pass_on(watched, question, answer)

    async def take(self, watched: Watched, answers: Mapping[str, Any], questions: Collection[Question]) -> None:
        """Pass on the answers that a repeated request has."""
        for question in questions:
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
            self.refusals[question["approval_id"]] = code_and_sentence(error)[1]
        self._left_open.add(question["approval_id"])


def _params(question: Question) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message=message_of(question), requested_schema=form_of(question))
