"""Models of bodies, parameters and answers, and their JSON Schema 2020-12, as OpenAPI 3.1 refers to it.

The text under a field is its description in /openapi.json.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, PrivateAttr, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, WithDefaultSchema

T = TypeVar("T")
PARAMETER = "parameter"
"""What is read of an address, where every value is text; the context of its validation."""


class _NotNull:
    """A field that may be absent, and is never null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        return schema["schema"] if schema["type"] == "nullable" else schema


NOT_NULL = _NotNull()
Maybe = Annotated[T | None, NOT_NULL]
"""A field that may be absent: None in Python, and never null in JSON."""


class Fields(BaseModel):
    """Named fields of JSON."""

    model_config = ConfigDict(strict=True, frozen=True, defer_build=True)

    described_in: ClassVar[type | None] = None
    """Where the texts under its fields are, besides its own class."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        model_schema, texts = handler.resolve_ref_schema(schema), cls._texts()
        for name, field in cls.model_fields.items():
            if text := texts.get(name):
                model_schema["properties"][field.alias or name].setdefault("description", text)
        return schema

    @classmethod
    def _texts(cls) -> Mapping[str, str]:
        sources = [cls] if cls.described_in is None else [cls.described_in, cls]
        return {name: text for source in sources for name, text in docstrings(source).items()}


class Input(Fields):
    """A body, or the parameters or headers of a request; unknown fields of the first two are refused."""

    model_config = ConfigDict(extra="forbid")

    _given: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def given(self) -> Mapping[str, Any]:
        """The fields as they were sent."""
        return self._given


class AnyJson(Input):
    """A body that is any JSON value, or absent."""

    value: Any = None
    """The value; None where there is no body."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        model_schema = handler.resolve_ref_schema(schema)
        for name in model_schema.keys() - {"description"}:
            del model_schema[name]
        return schema


class Answer(Fields):
    """The body of an answer. It is not checked when it is sent; the tests check each answer that they get."""


@cache
def docstrings(cls: type) -> Mapping[str, str]:
    """Return the text under each field of a class and of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if "__annotations__" in vars(base) and not base.__module__.startswith("pydantic"):
            texts |= _docstrings_of(base)
    return texts


def _docstrings_of(cls: type) -> Mapping[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # made at run time
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


class ProblemDetails(Answer):
    """What is wrong and what to do (RFC 9457), with facts such as ``run_id`` as further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    """``urn:callboard:problem:`` and the code."""
    title: str
    status: int
    code: str
    """Stable across releases; programs compare this."""
    detail: str
    """A sentence: what is wrong, the fact, the remedy."""
    retryable: bool
    """Whether the same request may succeed later, unchanged; then ``Retry-After`` says when to try again."""
    trace_id: Maybe[str] = None
    """The request's trace id, also in the header ``X-Trace-Id`` and in the server's log."""


Json = dict[str, Any]
ROOT = "#/components/schemas/"


class _Schemas(GenerateJsonSchema):
    """Schemas without titles, and without defaults that a client cannot send."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        new_schema = super().default_schema(schema)
        default = new_schema.get("default")
        is_text = isinstance(default, str)
        if not isinstance(default, str | int | float) or is_text != (new_schema.get("type") == "string"):
            new_schema.pop("default", None)
        return new_schema


def components(models: Iterable[Any]) -> tuple[dict[int, Json], Json]:
    """Return the schema of each model by its ``id()``, and the components that these refer to."""
    by_id = {id(model): model for model in models}
    inputs = [(key, "validation", TypeAdapter(model)) for key, model in by_id.items()]
    by_key, shared = TypeAdapter.json_schemas(
        inputs,  # type: ignore[arg-type]  # keys of any hashable type
        ref_template=ROOT + "{model}",
        schema_generator=_Schemas,
    )
    schemas: Json = shared.get("$defs", {})
    for schema in schemas.values():
        schema.pop("title", None)
    return {key: schema for (key, _), schema in by_key.items()}, dict(sorted(schemas.items()))


def schema_of(annotation: Any) -> Json:
    """Return the schema of one model or annotation."""
    return TypeAdapter(annotation).json_schema(schema_generator=_Schemas)
