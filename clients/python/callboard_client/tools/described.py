"""A function as a tool: what MCP says of it, its arguments out of JSON data and its result as JSON data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from callboard_client.signature import Types, Undescribed, arguments_schema, read_docstring, read_hints
from callboard_client.tools.effect import Effect
from callboard_client.tools.marks import MARK, Mark, ToolUnusable
from callboard_client.tools.values import fields_from_json, from_json, to_json

EFFECT_KEY, TIMEOUT_KEY = "callboard/effect", "callboard/timeout_s"
"""The members of a tool's ``_meta`` with its effect class, and with the seconds that a call may take."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names that every provider of models accepts."""
WRAPPED = "result"
"""The member that holds a result which is no object: structured content is one."""
_KINDS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "takes *{name}, which no schema can describe; name its arguments",
    inspect.Parameter.VAR_KEYWORD: "takes **{name}, which no schema can describe; name its arguments",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A function that an agent may call."""

    name: str
    description: str
    where: str
    """Its module and its name there."""
    function: Callable[..., Any]
    hints: Mapping[str, Any]
    """The types of its arguments."""
    required: tuple[str, ...]
    returns: Any
    """The type of its result."""
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    """Of the structured content; None where the return annotation says nothing, or text."""
    is_wrapped: bool
    """Whether the structured content is an object around the result, which is none."""
    effect: Effect
    timeout_s: float | None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as ``tools/list`` shows it."""
        meta: dict[str, Any] = {EFFECT_KEY: str(self.effect)}
        if self.timeout_s is not None:
            meta[TIMEOUT_KEY] = self.timeout_s
        data: dict[str, Any] = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        if self.output_schema is not None:
            data["outputSchema"] = self.output_schema
        return data | {"annotations": self.effect.annotations, "_meta": meta}

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as values of their types.

        Raises:
            Misfit: they do not fit.
        """
        return fields_from_json(self.hints, self.required, arguments, "", is_open=False)

    def write(self, value: Any) -> tuple[Any, dict[str, Any] | None]:
        """Return a result as JSON data, and as structured content where there is some.

        Raises:
            Misfit: it has no JSON form, or is not what the return annotation says.
        """
        plain = to_json(value)
        if self.output_schema is None:
            return plain, plain if isinstance(plain, dict) else None
        if not hasattr(self.returns, "model_validate") or not isinstance(value, self.returns):
            from_json(self.returns, plain, "the result")
        return plain, {WRAPPED: plain} if self.is_wrapped else plain


def describe(function: Callable[..., Any]) -> Tool:
    """Return a function with ``@tool`` as a tool.

    Raises:
        ToolUnusable: it cannot be one; the message says what to change.
    """
    mark: Mark = getattr(function, MARK)
    name = mark.name or function.__name__
    where = f"{function.__module__}:{function.__qualname__}"
    text, arguments = read_docstring(inspect.getdoc(function) or "")
    _require_plain(function, name, where, text)
    try:
        hints = read_hints(function, where)
        schema = arguments_schema(function, where, arguments, has_dataclasses=True)
        returns = hints.pop("return", Any)
        output, is_wrapped = _output_schema(returns, where)
    except Undescribed as error:
        raise ToolUnusable(f"{error}.") from error
    return Tool(
        name=name,
        description=text,
        where=where,
        function=function,
        hints=hints,
        required=tuple(schema["required"]),
        returns=returns,
        input_schema=schema,
        output_schema=output,
        is_wrapped=is_wrapped,
        effect=mark.effect,
        timeout_s=mark.timeout_s,
    )


def _require_plain(function: Callable[..., Any], name: str, where: str, text: str) -> None:
    """Refuse what a schema cannot describe, or a model cannot know how to call."""
    if not NAME.fullmatch(name):
        raise ToolUnusable(f"{where} is called {name!r}; a tool's name has letters, digits, '_' and '-', at most 64.")
    if not text:
        raise ToolUnusable(f"{where} has no docstring; write what it does, the model reads it.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolUnusable(f"{where} yields its results; return a list.")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in _KINDS:
            raise ToolUnusable(f"{where} {_KINDS[parameter.kind].format(name=parameter.name)}.")
        if parameter.annotation is parameter.empty:
            raise ToolUnusable(f"{where}: {parameter.name} has no type; write `{parameter.name}: str`, or what it is.")


def _output_schema(returns: Any, where: str) -> tuple[dict[str, Any] | None, bool]:
    """Return the schema of the structured content, and whether that is wrapped around the result.

    It is an object, since clients of the older versions of MCP read nothing else.
    """
    if returns in (str, None, type(None)):
        return None, False
    types = Types(where, has_dataclasses=True, is_result=True)
    schema = types.schema(returns, "its result")
    if not schema:
        return None, False
    is_wrapped = schema.get("type") != "object"
    if is_wrapped:
        schema = {"type": "object", "properties": {WRAPPED: schema}, "required": [WRAPPED]}
    return schema | types.definitions_member, is_wrapped
