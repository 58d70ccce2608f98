"""Builds a tool from a function: its name, docstring and type hints become the schema for the model."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn, get_type_hints

import orjson
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

from agents.errors import ArgumentsInvalid
from agents.tools.tool import MARKS, Tool
from config.definitions.errors import ToolUnknown
from config.definitions.schemas.json_schema import SchemaRefused, check_schema, schema_errors

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
    tool = Tool(name=called, description=description, parameters=parameters, function=converting, **marks)
    if tool.title_problem is not None:
        raise ToolUnknown(f"{who}: {tool.title_problem}.")
    return tool


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
            problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False)]
            raise ArgumentsInvalid(
                f"the arguments do not fit: {'; '.join(problems)[:1000]}.", problems=problems
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


# --- arguments


MAX_BYTES = 1024 * 1024
"""Longest arguments text."""
MAX_DEPTH = 64
"""Deepest nesting."""
MAX_DIGITS = 400
"""Longest number; Python's own limit is 4300 digits, and decoding takes quadratic time."""
SLICE_BYTES = 64 * 1024
"""What is split at once; one call for a whole text would keep other threads waiting."""

_NO_MARK = bytes(set(range(256)) - set(b'[]{}"'))
_TOO_DEEP = re.compile(rb"[\[{]{%d}" % (MAX_DEPTH + 1))


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a model wrote as JSON; an empty text means no arguments.

    Raises:
        ArgumentsInvalid: it is not a JSON object, or an ambiguous one (a repeated key, NaN).
    """
    if len(text) > MAX_BYTES:
        raise ArgumentsInvalid(f"the arguments have {len(text):,} characters and the limit is {MAX_BYTES:,}.")
    if not text.strip():
        return {}
    if _is_too_deep(text):
        raise ArgumentsInvalid(f"the arguments are nested more than {MAX_DEPTH} levels deep.")
    try:
        value = _DECODER.decode(text.strip())
    except json.JSONDecodeError as error:
        raise ArgumentsInvalid(f"the arguments are not JSON: {error.msg} at character {error.pos}.") from error
    if not isinstance(value, dict):
        raise ArgumentsInvalid('the arguments have to be a JSON object, like {"name": "value"}.')
    try:
        orjson.dumps(value)
    except (TypeError, ValueError) as error:  # half a surrogate pair, or a number beyond 64 bits
        raise ArgumentsInvalid(f"the arguments cannot be kept: {_reason(error)}.") from error
    return value


def validate_arguments(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check that ``arguments`` conform to the schema of ``tool``.

    Raises:
        ArgumentsInvalid: the message names the place of each problem and what is expected there.
    """
    problems = schema_errors(tool.parameters, dict(arguments))
    if problems:
        raise ArgumentsInvalid(f"the arguments of {tool.name} do not fit: {'; '.join(problems)}.", problems=problems)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise ArgumentsInvalid(f"'{name[:80]}' is there twice; write it once.")
        value[name] = item
    return value


def _no_constant(name: str) -> NoReturn:
    raise ArgumentsInvalid(f"{name} is not JSON; write a number, or null.")


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ArgumentsInvalid(f"a number of {len(text)} digits is too long.")
    return int(text)


def _finite(text: str) -> float:
    value = float(text) if len(text) <= MAX_DIGITS else float("inf")
    if value in (float("inf"), float("-inf")):
        raise ArgumentsInvalid(f"the number {text[:20]} is too large.")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_bounded_int, parse_float=_finite
)


def _is_too_deep(text: str) -> bool:
    """Return whether brackets outside strings nest too deeply, without recursion (the decoder recurses).

    Most texts have too few brackets for that. Each round removes the innermost pairs; brackets that remain after
    ``MAX_DEPTH`` rounds are deeper, or not JSON.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    brackets = _outside_strings(text)
    for _ in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    has_pairs = b"[]" in brackets or b"{}" in brackets  # although each round removed some
    return has_pairs or _TOO_DEEP.search(brackets) is not None


def _outside_strings(text: str) -> bytes:
    """Return the brackets of a JSON text that are in no string; a quote without an escape begins or ends one."""
    unescaped = text.encode("utf-8", "replace").replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = unescaped.translate(None, _NO_MARK)
    buffer, is_inside = bytearray(), False
    for at in range(0, len(marks), SLICE_BYTES):
        pieces = marks[at : at + SLICE_BYTES].split(b'"')
        buffer += b"".join(pieces[is_inside::2])
        is_inside ^= len(pieces) % 2 == 0
    return bytes(buffer)


def _reason(error: Exception) -> str:
    text = str(error)
    if "surrogate" in text:
        return "half of a surrogate pair is not text"
    if "64-bit" in text:
        return "a number is larger than 64 bits"
    return text
