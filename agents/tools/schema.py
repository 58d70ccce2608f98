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
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.json_schema import GenerateJsonSchema

from agents.tool_errors import ArgumentsInvalid
from agents.tools.tool import MARKS, Tool
from config.definitions.errors import ToolUnknown
from config.definitions.schemas.json_schema import SchemaRefused, check_schema

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names of tools that every provider accepts."""
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*+(?:\([^)]*+\))?+\s*+:\s*+(.*)$")
_KINDS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "takes *{name}, which no schema can describe; name its arguments",
    inspect.Parameter.VAR_KEYWORD: "takes **{name}, which no schema can describe; name its arguments",
    inspect.Parameter.POSITIONAL_ONLY: "takes {name} by position only; remove the '/' from its signature",
}


def build_tool(function: Callable[..., Any], registered: str | None = None) -> Tool:
    """Return ``function`` as a tool, with the JSON Schema of its arguments.

    It is called as ``@tool`` says, else by the name it is ``registered`` under, else by its own.

    Raises:
        ToolUnknown: the function cannot be a tool; the message names what to change.
    """
    marks: dict[str, Any] = dict(getattr(function, MARKS, {}))
    called = str(marks.pop("name", None) or registered or getattr(function, "__name__", type(function).__name__))
    where = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', called)}"
    who = f"tool '{called[:80]}' ({where})"
    if not _NAME.fullmatch(called):
        raise ToolUnknown(f"{who} needs a name of letters, digits, '_' and '-', at most 64.")
    description, descriptions = describe(function)
    if not description:
        raise ToolUnknown(f"{who} has no docstring; write what it does, the model reads it.")
    model, parameters = _model(called, who, _fields(function, who, descriptions))
    converting = _converting(function, model)
    return Tool(name=called, description=description, parameters=parameters, function=converting, **marks)


def _model(called: str, who: str, fields: dict[str, Any]) -> tuple[type[BaseModel], Mapping[str, Any]]:
    """Return the arguments as a pydantic model, and its JSON Schema."""
    try:
        model = create_model(called, __config__=ConfigDict(extra="forbid"), **fields)
        schema = model.model_json_schema(schema_generator=_Short)
        schema.setdefault("properties", {})
        schema.pop("title", None)
        check_schema(schema)
    except PydanticUserError as error:
        guilty = next((f"'{info.alias}'" for hint, info in fields.values() if _has_no_schema(hint)), "an argument")
        raise ToolUnknown(
            f"{who}: the type of {guilty} has no JSON Schema; "
            "use str, int, float, bool, list, dict, Literal, an Enum, a dataclass or a pydantic model."
        ) from error
    except SchemaRefused as error:
        raise ToolUnknown(f"{who}: {error}") from error
    return model, schema


def _has_no_schema(hint: Any) -> bool:
    try:
        TypeAdapter(hint).json_schema()
    except PydanticUserError:
        return True
    return False


def _converting(function: Callable[..., Any], model: type[BaseModel]) -> Callable[..., Any]:
    """Wrap ``function`` so that plain JSON values are converted to its annotated types (an Enum, a model, a date)."""

    def converted(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            values = model.model_validate(arguments)
        except ValidationError as error:
            misfits = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)]
            raise ArgumentsInvalid(
                f"the arguments do not fit: {'; '.join(misfits)[:1000]}.", misfits=misfits
            ) from error
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


def _fields(function: Callable[..., Any], who: str, descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Return pydantic's fields of the arguments.

    Raises:
        ToolUnknown: an argument has no type, or a kind that no schema can describe.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # evaluates the user's annotations, which may raise anything
        raise ToolUnknown(f"{who}: its annotations cannot be read: {error}.") from error
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:  # functions written in C often have none
        raise ToolUnknown(f"{who}: its arguments cannot be read; wrap it in a Python function.") from error
    fields: dict[str, Any] = {}
    for parameter in parameters.values():
        problem = _KINDS.get(parameter.kind)
        if problem is not None:
            raise ToolUnknown(f"{who} {problem.format(name=parameter.name)}.")
        if parameter.name not in hints:
            name = parameter.name
            raise ToolUnknown(f"{who}: '{name}' has no type; write `{name}: str`, or what it is.")
        default = ... if parameter.default is parameter.empty else parameter.default
        text = descriptions.get(parameter.name)
        hint = Annotated[hints[parameter.name], Field(description=text)] if text else hints[parameter.name]
        # Under an alias any name is allowed, also one that pydantic keeps for itself (`_x`, `model_config`).
        fields[f"argument_{len(fields)}"] = (hint, Field(default, alias=parameter.name))
    return fields


def describe(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what a Google-style docstring says: all before its first section, and each argument on one line."""
    lines = (inspect.getdoc(function) or "").splitlines()
    start = next((n for n, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return "\n".join(lines[:start]).strip(), _arguments(lines[start:])


def _arguments(lines: list[str]) -> dict[str, str]:
    descriptions: dict[str, str] = {}
    section, indent, name = "", 0, ""
    for line in lines:
        heading = _SECTION.match(line)
        if heading:
            section, indent, name = heading[1], 0, ""
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            entry = _ARGUMENT.match(line.strip()) if depth <= indent else None
            if entry:
                name = entry[1]
                descriptions[name] = entry[2].strip()
            elif name:
                descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    return descriptions
