"""What a tool may ask its run for: an answer of a person, a text of the model, a task of another system."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agents.errors import QuestionInvalid
from config.definitions.schemas.json_schema import SchemaRefused, check_schema, schema_errors
from config.definitions.schemas.shown_schema import shown_schema
from config.effects import Effect

# --- questions to a person: a text, and a form as a JSON Schema

DEFAULT_FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "minLength": 1, "maxLength": 10_000}},
    "required": ["answer"],
    "additionalProperties": False,
}
"""The form of a question that has none: one text."""
MAX_TEXT = 2000
"""Characters of a question."""
MAX_FIELDS = 30
"""Fields of a form."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
MAX_ASKED = 10
"""Questions that one call may ask."""


class QuestionAsked(BaseException):
    """A tool asked a person, and its call is over until there is an answer. Not to be handled by tools."""

    def __init__(self, text: str, form: Mapping[str, Any], state: str | None = None) -> None:
        super().__init__(text, form, state)
        self.text = text
        self.form = form
        self.state = state


class CallAsks(Exception):
    """A call ended because its tool asked a person."""

    def __init__(self, text: str, form: Mapping[str, Any], state: str | None = None) -> None:
        super().__init__(text, form, state)
        self.text = text
        self.form = form
        self.state = state


def require_few(count: int) -> None:
    """Check that a call which has asked so many questions may ask another one.

    Raises:
        QuestionInvalid: it may not.
    """
    if count >= MAX_ASKED:
        raise QuestionInvalid(
            f"one call may ask {MAX_ASKED} questions, and this one has; ask for several fields at once."
        )


def require_question(text: Any, form: Any) -> None:
    """Check that a person can be asked this; both come from a tool, or from a model.

    Raises:
        QuestionInvalid: the message says what to change.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
        raise QuestionInvalid(f"a question is a text of 1 to {MAX_TEXT:,} characters.")
    if _NO_TEXT.search(text):
        raise QuestionInvalid("the question has a NUL or half of a surrogate pair, which no database keeps.")
    properties = form.get("properties") if isinstance(form, Mapping) else None
    if not isinstance(properties, Mapping) or form.get("type") != "object" or not properties:
        raise QuestionInvalid("a form is a JSON Schema with `type: object` and `properties`, one for each field.")
    if len(properties) > MAX_FIELDS:
        raise QuestionInvalid(f"a form has at most {MAX_FIELDS} fields, and this one {len(properties)}.")
    try:
        check_schema(form)
        shown_schema(form)
    except SchemaRefused as error:
        raise QuestionInvalid(f"the form cannot be used: {error}") from error
    unknown = [name for name in form.get("required", ()) if name not in properties]
    if unknown:
        raise QuestionInvalid(f"the form requires '{str(unknown[0])[:80]}', which is none of its `properties`.")


def missing_form(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the form of the required arguments that are missing, where the others fit; else None."""
    missing = [name for name in parameters.get("required", ()) if name not in arguments]
    properties = parameters.get("properties", {})
    if not missing or any(name not in properties for name in missing):
        return None
    others = {**parameters, "required": [name for name in parameters["required"] if name in arguments]}
    if schema_errors(others, dict(arguments)):
        return None
    form: dict[str, Any] = {"type": "object", "properties": {name: properties[name] for name in missing}}
    form |= {"required": missing, "additionalProperties": False}
    return form | ({"$defs": parameters["$defs"]} if "$defs" in parameters else {})


# --- a model's answer


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRequest:
    """What the model is asked; all of its texts are a stranger's."""

    messages: Sequence[Mapping[str, str]]
    """``role`` (user or assistant) and ``content`` of each."""
    instructions: str = ""
    """What the stranger would have the model keep to."""
    max_tokens: int
    temperature: float | None = None
    stop: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleAnswer:
    """What the model answered."""

    text: str
    model: str
    is_cut: bool
    """Whether it reached ``max_tokens``."""


Sample = Callable[[SampleRequest], Awaitable[SampleAnswer]]
"""Asks the run's model: under its policy, its guardrails and its limits.

Raises:
    CallboardError: the model was not asked, or did not answer.
"""

# --- work that another system does: begun with one message, while its run waits without a worker


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOutcome:
    """What became of a task that has ended, or whose time is over."""

    outcome: Literal["done", "failed", "unknown"]
    result: Any
    """What it returned, as JSON data; otherwise a sentence for the model."""


class TaskCall(Protocol):
    """How one tool's calls are sent to the system that does the work, and how their results come back."""

    @property
    def application(self) -> str:
        """The id of the system's configuration, by which any worker finds its results again."""

    @property
    def task(self) -> str:
        """The name of the task, for people."""

    async def send(self, task_id: str, arguments: Mapping[str, Any], expires_ms: int) -> None:
        """Return when the task is in its queue, where it expires at ``expires_ms`` (since 1970).

        Raises:
            ToolCutOff: the message may have arrived, or not.
            ModelVisible: it was not sent.
        """

    async def outcome(
        self,
        task_id: str,
        effect: Effect,
        *,
        is_over: bool,
        has_begun: bool = False,
        backend: str | None = None,
        age_s: float = 0.0,
    ) -> TaskOutcome | None:
        """Return what became of a task; None while it may still end.

        ``is_over``: its time is over, so that a task that has not ended is given up. ``has_begun``: whether it was seen
        to have begun. ``backend``: the incarnation of the result backend before the task was sent, ``age_s`` ago.

        Raises:
            Retryable: the result backend does not answer; it is to be asked again.
        """

    async def incarnation(self) -> str | None:
        """Return what changes when results may have been lost; None where that is not known, or does not matter.

        Raises:
            Retryable: the result backend does not answer.
        """

    async def is_known(self, task_id: str) -> bool:
        """Return whether some worker has taken the task up: then it was sent.

        Raises:
            Retryable: the result backend does not answer.
        """

    async def wait(self, task_id: str, seconds: float) -> None:
        """Return when the task has ended, or after ``seconds``."""
