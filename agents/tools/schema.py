"""Builds a tool from a function: its name, docstring and type hints become the schema for the model."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.json_schema import GenerateJsonSchema

from agents.tools.docstring import describe
from agents.tools.errors import ArgumentsInvalid
from agents.tools.tool import MARKS, Tool, ToolMarks
from config.definitions.errors import ToolUnknown
from config.definitions.json_schema import SchemaRefused, check_schema

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names of tools that every provider accepts."""
_KINDS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "takes *{name}, which no schema can describe; name its arguments",
    inspect.Parameter.VAR_KEYWORD: "takes **{name}, which no schema can describe; name its arguments",
    inspect.Parameter.POSITIONAL_ONLY: "takes {name} by position only; remove the '/' from its signature",
}


def build_tool(function: Callable[..., Any], *, name: str | None = None) -> Tool:
    """Return ``function`` as a tool, with the JSON Schema of its arguments.

    Raises:
        ToolUnknown: the function cannot be a tool; the message names what to change.
    """
    marks: ToolMarks | None = getattr(function, MARKS, None)
    own_name = str(getattr(function, "__name__", type(function).__name__))
    called: str = name or (marks.name if marks else None) or own_name
    where = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', called)}"
    if not _NAME.fullmatch(called):
        raise ToolUnknown(f"tool '{called[:80]}' ({where}) needs a name of letters, digits, '_' and '-', at most 64.")
    said = describe(function)
    if not said.text:
        raise ToolUnknown(f"tool '{called}' ({where}) has no docstring; write what it does, the model reads it.")
    model = _model(function, called, where, said.arguments)
    parameters = _parameters(model, called, where)
    facts: dict[str, Any] = {}
    if marks is not None:
        facts = {"effect": marks.effect, "timeout_s": marks.timeout_s, "confirm": marks.confirm, "check": marks.check}
    return Tool(
        name=called, description=said.text, parameters=parameters, function=_converting(function, model), **facts
    )


def _model(function: Callable[..., Any], called: str, where: str, descriptions: Mapping[str, str]) -> type[BaseModel]:
    fields = _fields(function, called, where, descriptions)
    try:
        return create_model(called, __config__=ConfigDict(extra="forbid"), **fields)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise _no_schema(called, where, {info.alias: hint for hint, info in fields.values()}) from error


def _parameters(model: type[BaseModel], called: str, where: str) -> Mapping[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Short)
        schema.setdefault("properties", {})
        schema.pop("title", None)
        check_schema(schema)
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        hints = {info.alias: info.annotation for info in model.model_fields.values()}
        raise _no_schema(called, where, hints) from error
    except SchemaRefused as error:
        raise ToolUnknown(f"tool '{called}' ({where}): {error}") from error
    return schema


def _converting(function: Callable[..., Any], model: type[BaseModel]) -> Callable[..., Any]:
    """Wrap ``function`` so that plain JSON values are converted to its annotated types (an Enum, a model, a date)."""

    def converted(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            values = model.model_validate(arguments)
        except ValidationError as error:
            found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)]
            raise ArgumentsInvalid(f"the arguments do not fit: {'; '.join(found)[:1000]}.", misfits=found) from error
        fields = type(values).model_fields
        return {str(fields[name].alias): getattr(values, name) for name in values.model_fields_set}

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - asks whether calling it awaits

        @functools.wraps(function)
        async def call_async(**arguments: Any) -> Any:
            return await function(**converted(arguments))

        return call_async

    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        return function(**converted(arguments))

    return call


class _Short(GenerateJsonSchema):
    """Omits the titles that pydantic derives from names, since they cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _fields(function: Callable[..., Any], called: str, where: str, descriptions: Mapping[str, str]) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # evaluates the user's annotations, which may raise anything
        raise ToolUnknown(f"tool '{called}' ({where}): its annotations cannot be read: {error}.") from error
    fields: dict[str, Any] = {}
    for parameter in _signature(function, called, where).parameters.values():
        problem = _KINDS.get(parameter.kind)
        if problem is not None:
            raise ToolUnknown(f"tool '{called}' ({where}) {problem.format(name=parameter.name)}.")
        if parameter.name not in hints:
            raise ToolUnknown(
                f"tool '{called}' ({where}): '{parameter.name}' has no type; write `{parameter.name}: str`, "
                "or what it is."
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        text = descriptions.get(parameter.name)
        hint = Annotated[hints[parameter.name], Field(description=text)] if text else hints[parameter.name]
        # Under an alias any name is allowed, also one that pydantic keeps for itself (`_x`, `model_config`).
        fields[f"argument_{len(fields)}"] = (hint, Field(default, alias=parameter.name))
    return fields


def _signature(function: Callable[..., Any], called: str, where: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:  # functions written in C often have none
        raise ToolUnknown(
            f"tool '{called}' ({where}): its arguments cannot be read; wrap it in a Python function."
        ) from error


def _no_schema(called: str, where: str, hints: Mapping[str | None, Any]) -> ToolUnknown:
    guilty = "an argument"
    for name, hint in hints.items():
        try:
            TypeAdapter(hint).json_schema()
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError):
            guilty = f"'{name}'"
            break
    return ToolUnknown(
        f"tool '{called}' ({where}): the type of {guilty} has no JSON Schema; "
        "use str, int, float, bool, list, dict, Literal, an Enum, a dataclass or a pydantic model."
    )
