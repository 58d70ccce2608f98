"""JSON Schema 2020-12 of the models, as OpenAPI 3.1 refers to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

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
