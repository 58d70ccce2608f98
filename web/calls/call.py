"""One declaration per HTTP call, above its function: what it takes, what it answers, what it may refuse.

A function's parameters ``query``, ``headers`` and ``body`` are what the request has: they are annotated with their
models. A call without ``query`` takes no parameters; every other name is a part of the path. The function's docstring
is the call's description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

from flask import Response, request
from pydantic import ValidationError

from config.errors import BadRequest, ErrorKind
from web.calls.bodies import read_object, read_value
from web.calls.fields import PARAMETER, AnyJson, Fields, Input
from web.calls.refusals import refusal, unknown

I = TypeVar("I", bound=Input)
View = Callable[..., Response]
Verifies = Callable[[bytes], object]
Media = type[Fields] | Mapping[str, Any] | None
"""The body of an answer: JSON of this model, a schema by media type, or none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpCall:
    """What an HTTP call takes and answers."""

    path: Mapping[str, Any]
    """The annotations of the parts of its path."""
    query: type[Input] | None
    headers: type[Input] | None
    body: type[Input] | None
    answers: Mapping[int, Media]
    """The body for each status that is no error."""
    problems: tuple[ErrorKind, ...]
    """The errors of this call; those that every call may have are not named."""
    sends: Mapping[str, str]
    """What each header of its answers says, besides those that follow from the rest."""

    @property
    def body_is_optional(self) -> bool:
        """Whether the body may be left out: none of its fields is required."""
        return self.body is not None and not any(field.is_required() for field in self.body.model_fields.values())

    def inputs(self, verifies: Verifies) -> dict[str, Input]:
        """Return what the function takes, read from the current request."""
        by_part: dict[str, Input] = {}
        if self.query is not None:
            by_part["query"] = read_query(self.query)
        elif request.args:
            raise unknown("parameter", next(iter(request.args)), ())
        if self.headers is not None:
            by_part["headers"] = read_headers(self.headers)
        if self.body is not None:
            if issubclass(self.body, AnyJson):
                sent = {"value": read_value(verifies=verifies)}
            else:
                sent = read_object(optional=self.body_is_optional, verifies=verifies)
            by_part["body"] = read(self.body, "field", sent)
        return by_part


def call(
    answers: Mapping[int, Media],
    *,
    problems: tuple[ErrorKind, ...] = (),
    sends: Mapping[str, str] = MappingProxyType({}),
    requires: Callable[[], object] | None = None,
    verifies: Verifies = lambda body: None,
) -> Callable[[View], View]:
    """Declare a call; its function gets what its parameters name, validated.

    ``requires`` refuses callers who may not make the call at all, before anything of the request is read; ``verifies``
    refuses a body by its bytes, before it is parsed.
    """

    def declare(function: View) -> View:
        hints = get_type_hints(function, include_extras=True)
        hints.pop("return", None)
        query, headers, body = (hints.pop(name, None) for name in ("query", "headers", "body"))
        takes = {"path": hints, "query": query, "headers": headers, "body": body}
        declared = HttpCall(**takes, answers=answers, problems=problems, sends=sends)

        @wraps(function)
        def view(**path: Any) -> Response:
            if requires is not None:
                requires()
            return function(**path, **declared.inputs(verifies))

        view.call = declared  # type: ignore[attr-defined]
        return view

    return declare


def declared(view: Any) -> HttpCall | None:
    """Return the declaration of a function of the application, if it has one."""
    http_call = getattr(view, "call", None)
    return http_call if isinstance(http_call, HttpCall) else None


def read_query(model: type[I]) -> I:
    """Return the parameters of the current request's address; a repeated one is refused, since it is ambiguous."""
    for name, values in request.args.lists():
        if len(values) > 1:
            raise BadRequest(f"the parameter '{name[:80]}' is given {len(values)} times; give it once.")
    return read(model, PARAMETER, request.args.to_dict())


def read_headers(model: type[I]) -> I:
    """Return the headers that the model names."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    return read(model, "header", {name: request.headers[name] for name in names if name in request.headers})


def read(model: type[I], kind: str, values: Mapping[str, Any]) -> I:
    """Return the model with these fields.

    Raises:
        BadRequest: a field is unknown, missing or of another form.
    """
    try:
        instance = model.model_validate(values, context=kind)
    except ValidationError as error:
        raise refusal(kind, model, error) from error
    instance._given = values
    return instance
