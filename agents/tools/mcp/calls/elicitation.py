"""What a server asks during a call: a person, as a question of the run (elicitation), or the run's model (sampling).

Its texts and its form are a stranger's: a form that asks for secrets, or has more than single values in its fields, is
declined without a person, and of an address the host is named and nothing is opened. The model gets the server's texts
alone: nothing of the run's conversation, whatever the server asks to include, and no tools. It is the model of the
run's agent, whatever the server would prefer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    TextContent,
)

from agents.errors import QuestionInvalid
from agents.tools.requests import Sample, SampleRequest, require_question
from config.definitions.mcp.server import McpSamplingFields
from config.definitions.schemas.json_schema import check_schema, schema_errors
from config.errors import CallboardError
from config.redaction import redact_start
from config.text.visible import visible

MAX_MESSAGE = 1200
"""Characters of a server's text in a question."""
MAX_NAME, MAX_TITLE, MAX_ABOUT = 80, 200, 500
"""Characters of a field's name, title and description."""
MAX_URL = 600
"""Characters of an address; a longer one could not be read."""
MAX_MESSAGES = 100
MAX_CHARS = 200_000
"""Characters of all messages of a request and its instructions."""
MAX_STOPS, MAX_STOP = 4, 100
"""Stop sequences, and characters of each."""
_HOST = re.compile(r"(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]*)?", re.IGNORECASE)
"""Host and port of an address. A browser may read others elsewhere: it takes ``\\`` for ``/``, and decodes ``%2f``."""
_SECRET = re.compile(
    r"pass[ _-]?(?:word|phrase|code|wd)|secret|token|credential|api[ _-]?key|private[ _-]?key|access[ _-]?key|"
    r"\botp\b|one[ _-]time|\bpin\b|\bcv[cv]2?\b|card[ _-]?number|social security|\bssn\b|\biban\b",
    re.IGNORECASE,
)
_WANTS = re.compile(r"\b(?:enter|type|paste|provide|supply|give|send|what is|confirm your)\b", re.IGNORECASE)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
"""Where the words of a field's name part."""
_SINGLE = ("string", "number", "integer", "boolean")
_KEPT = "type minLength maxLength minimum maximum format enum default minItems maxItems uniqueItems".split()
"""The keywords of a field that the protocol has, besides its texts; others are left out."""
_FORMATS = ("email", "uri", "date", "date-time")
OPENED: Mapping[str, Any] = {
    "type": "object",
    "properties": {"opened": {"type": "boolean", "title": "I have opened the address"}},
    "required": ["opened"],
    "additionalProperties": False,
}


class Declined(Exception):
    """A request that no person is asked; the message says why, as a part of a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Elicited:
    """A question, and how its answer is given back."""

    text: str
    form: Mapping[str, Any]
    is_address: bool = False

    def result(self, answer: Mapping[str, Any]) -> ElicitResult:
        """Return a person's answer, which fits the form, as the protocol has it, with defaults for what it lacks."""
        if self.is_address:
            return ElicitResult(action="accept" if answer.get("opened") is True else "decline")
        fields = self.form["properties"].items()
        defaults = {name: field["default"] for name, field in fields if "default" in field}
        return ElicitResult(action="accept", content=defaults | dict(answer))


def elicited(server: str, params: ElicitRequestParams, round_number: int = 1) -> Elicited:
    """Return what a person is asked; the same question in a later round of the call is another one.

    Raises:
        Declined: no person is asked this.
    """
    text, form, is_address = _asked(server, params)
    if round_number > 1:
        form = {**form, "$comment": f"round {round_number}"}
    try:
        require_question(text, form)
    except QuestionInvalid as error:
        raise Declined(str(error).rstrip(".")) from error
    return Elicited(text=text, form=form, is_address=is_address)


def _asked(server: str, params: ElicitRequestParams) -> tuple[str, dict[str, Any], bool]:
    message = _shown(params.message, MAX_MESSAGE)
    if isinstance(params, ElicitRequestURLParams):
        url, host = _address(params.url)
        text = f"The MCP server {server} asks you to open an address at {host} in your browser: {message}\n\n{url}\n\n"
        return text + "Callboard does not open it. What you enter there goes to that host.", dict(OPENED), True
    form = _form(params.requested_schema)
    _require_no_secret(params.message, form)
    return f"The MCP server {server} asks: {message}", form, False


def _address(url: str) -> tuple[str, str]:
    """Return an address that a person may open, and its host.

    Raises:
        Declined: it is none.
    """
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise Declined(f"its address is longer than {MAX_URL} characters, or has others than those of a URL")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for one that is none
    except ValueError as error:
        raise Declined("its address cannot be read") from error
    if parts.scheme != "https" or not _HOST.fullmatch(parts.netloc):
        raise Declined("its address is not one of https with a plain host and without credentials")
    return url, parts.netloc


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form of single values, with no keywords but those of the protocol.

    Raises:
        Declined: it has others.
    """
    fields, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(fields, Mapping) or not fields:
        raise Declined("its form is no object with fields")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise Declined("its form does not say by a list of names what is required")
    properties = {name: _field(name, field) for name, field in fields.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _field(name: str, field: Any) -> dict[str, Any]:
    """Return a field as a form has it: of a choice with titles the values, and the titles in its description."""
    if not isinstance(field, Mapping) or visible(name) != name or len(name) > MAX_NAME:
        raise Declined("its form has a field without a name or a schema")
    schema = {key: field[key] for key in _KEPT if key in field}
    if schema.get("format") not in _FORMATS:
        schema.pop("format", None)
    if isinstance(schema.get("default"), str) and visible(schema["default"]) != schema["default"]:
        del schema["default"]
    titled = _titled(field)
    if field.get("type") == "array":
        items = field.get("items")
        titled = _titled(items)
        schema["items"] = _choices(items, titled)
    elif titled or "enum" in field:
        schema |= _choices(field, titled)
    elif field.get("type") not in _SINGLE:
        raise Declined(f"the field '{name}' is no text, number, yes or no, or choice")
    if "default" in schema and not _fits(schema):
        del schema["default"]
    titles = "\n".join(f"{value}: {title}" for value, title in titled.items())
    texts = {"title": _shown(field.get("title"), MAX_TITLE)}
    texts["description"] = _shown(f"{field.get('description') or ''}\n{titles}".strip(), MAX_ABOUT)
    return schema | {key: text for key, text in texts.items() if text}


def _fits(field: Mapping[str, Any]) -> bool:
    """Return whether the default of a field fits it, so that it may stand for an answer."""
    try:
        check_schema(field)  # with its default, whose size is limited so
        return not schema_errors(field, field["default"])
    except ValueError:  # the default cannot be kept as JSON; or the field is no schema, and the form is declined
        return False


def _titled(field: Any) -> dict[str, str]:
    """Return the values of a choice and their titles; nothing where it has none."""
    options = (field.get("oneOf") or field.get("anyOf")) if isinstance(field, Mapping) else None
    if not isinstance(options, list):
        return {}
    return {
        option["const"]: str(option.get("title", ""))
        for option in options
        if isinstance(option, Mapping) and isinstance(option.get("const"), str)
    }


def _choices(field: Any, titled: Mapping[str, str]) -> dict[str, Any]:
    values = list(titled) or (field.get("enum") if isinstance(field, Mapping) else None)
    if not isinstance(values, list) or not all(isinstance(value, str) and visible(value) == value for value in values):
        raise Declined("its form has a choice that is none between texts")
    return {"type": "string", "enum": values}


def _require_no_secret(message: str, form: Mapping[str, Any]) -> None:
    """Return unless a form asks for what the protocol does not let it ask for: secrets go to an address.

    Raises:
        Declined: it does.
    """
    open_texts = {
        name: schema
        for name, schema in form["properties"].items()
        if schema["type"] == "string" and "enum" not in schema
    }
    for name, field in open_texts.items():
        text = f"{_WORDS.sub(' ', name)} {field.get('title', '')} {field.get('description', '')}"
        if _SECRET.search(text):
            raise Declined(f"the field '{name}' asks for a secret, which no form may")
    if open_texts and _WANTS.search(message[:MAX_MESSAGE]) and _SECRET.search(message[:MAX_MESSAGE]):
        raise Declined("it asks for a secret, which no form may")


def _shown(text: Any, most: int) -> str:
    return visible(redact_start(text, most)).strip() if isinstance(text, str) else ""


# --- samplings ----------------------------------------------------------------------------------------


class ServerSampler:
    """The samplings of one call, up to its server's limits."""

    def __init__(self, allowed: McpSamplingFields, sample: Sample | None) -> None:
        self._allowed, self._sample = allowed, sample
        self._calls = 0

    async def answer(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Return what the run's model answers, or why it was not asked or has not answered."""
        if not self._allowed.allowed or self._sample is None:
            return ErrorData(code=INVALID_REQUEST, message="Sampling not supported")
        if self._calls >= self._allowed.max_calls:
            return ErrorData(code=INVALID_REQUEST, message=f"at most {self._allowed.max_calls} samplings a call")
        self._calls += 1
        try:
            answer = await self._sample(_request(params, self._allowed.max_tokens))
        except ValueError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        except CallboardError as error:  # no more than its code is the server's business
            return ErrorData(code=INVALID_REQUEST, message=f"the model was not asked, or did not answer: {error.code}")
        content = TextContent(type="text", text=answer.text)
        reason = "maxTokens" if answer.is_cut else "endTurn"
        return CreateMessageResult(role="assistant", content=content, model=answer.model, stop_reason=reason)


def _request(params: CreateMessageRequestParams, max_tokens: int) -> SampleRequest:
    """Return what the model is asked.

    Raises:
        ValueError: it is not text alone, or too much.
    """
    if params.tools or params.tool_choice is not None:
        raise ValueError("samplings have no tools here")
    if not 0 < len(params.messages) <= MAX_MESSAGES:
        raise ValueError(f"a sampling has 1 to {MAX_MESSAGES} messages")
    messages = []
    for message in params.messages:
        parts = message.content_as_list
        if not all(isinstance(part, TextContent) for part in parts):
            raise ValueError("samplings are of text alone here")
        text = "\n".join(part.text for part in parts if isinstance(part, TextContent))
        messages.append({"role": str(message.role), "content": text})
    instructions = params.system_prompt or ""
    if len(instructions) + sum(len(part["content"]) for part in messages) > MAX_CHARS:
        raise ValueError(f"a sampling has at most {MAX_CHARS:,} characters")
    heat = params.temperature
    return SampleRequest(
        messages=messages,
        instructions=instructions,
        max_tokens=max(1, min(params.max_tokens, max_tokens)),
        temperature=min(max(heat, 0.0), 2.0) if heat is not None else None,
        stop=tuple(sequence[:MAX_STOP] for sequence in (params.stop_sequences or ())[:MAX_STOPS] if sequence),
    )
