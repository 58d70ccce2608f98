"""Compares two versions of a contract: which changes do programs not survive that were written for the older one?

An input has to accept what it accepted. An output has to keep what its readers rely on: its fields, that they are
there, and their types; new fields, new values of an enum and new kinds of objects are nothing new to them, since
readers ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cli.dev.contracts.contract import Contract, Direction

Schema = Mapping[str, Any]
_LEAST = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")
_MOST = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_EXACT = ("pattern", "format", "multipleOf", "uniqueItems", "propertyNames")
_SIMPLE = ("string", "number", "integer", "boolean", "null", "array")
"""Kinds of values that are new to a reader where they were not written before; an unknown kind of object is ignored."""


def incompatibilities(contract: Contract, released: Schema, present: Schema) -> list[str]:
    """Return a sentence for each change since the release that others do not survive."""
    breaks: dict[str, None] = {}
    if contract.direction is not Direction.OUTPUT:
        breaks |= dict.fromkeys(_Comparison(released, present, is_input=True).problems())
    if contract.direction is not Direction.INPUT:
        breaks |= dict.fromkeys(_Comparison(released, present, is_input=False).problems())
    return [f"{contract.name}: {problem}" for problem in breaks]


class _Comparison:
    """One comparison of two documents, in one direction."""

    def __init__(self, old: Schema, new: Schema, *, is_input: bool) -> None:
        self._old = old
        self._new = new
        self._is_input = is_input
        self._seen: set[tuple[int, int]] = set()
        """The pairs of schemas that were compared: a schema may contain itself."""

    def problems(self) -> Iterator[str]:
        yield from self._schemas(self._old, self._new, "")

    def _schemas(self, old: Any, new: Any, where: str) -> Iterator[str]:
        """Yield what is wrong with a value's new schema: each variant of the older one needs one that replaces it."""
        olds, news = _variants(self._old, old), _variants(self._new, new)
        if "any" in news and (self._is_input or "any" not in olds):
            if not self._is_input:
                yield _unexpected(where, "any")
            return
        is_lost = False
        for name, variant in olds.items():
            other = self._replacement(name, variant, news)
            if other is None:
                is_lost = True
                yield f"{_place(where)} may no longer be {_kind(name)}; {self._keep}."
            elif (id(variant), id(other)) not in self._seen:
                self._seen.add((id(variant), id(other)))
                yield from self._variant(variant, other, where if len(olds) == 1 else f"{where}<{name}>")
        if not self._is_input and not is_lost and "any" not in olds:
            yield from (_unexpected(where, name) for name in news if name not in olds and name in _SIMPLE)

    def _replacement(self, name: str, variant: Schema, news: Mapping[str, Schema]) -> Schema | None:
        """Return the variant that replaces the older one: of its name, or a renamed one that is no problem."""
        if name in news:
            return news[name]
        if self._is_input and name == "integer" and "number" in news:
            return news["number"]
        same_type = [other for other in news.values() if other.get("type") == variant.get("type") is not None]
        return next((other for other in same_type if self._is_as_good(variant, other)), None)

    def _is_as_good(self, old: Schema, new: Schema) -> bool:
        trial = _Comparison(self._old, self._new, is_input=self._is_input)
        return next(trial._variant(old, new, ""), None) is None

    @property
    def _keep(self) -> str:
        if self._is_input:
            return "accept it as before, or take the other form in a new field"
        return "keep it, and write the other form in a new field"

    def _variant(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        yield from self._values(old, new, where)
        if self._is_input:
            yield from _bounds(old, new, where)
        if "properties" in old or "properties" in new:
            yield from self._fields(old, new, where)
        yield from self._other_fields(old, new, where)
        if "items" in old or "items" in new:
            yield from self._schemas(old.get("items", True), new.get("items", True), f"{where}[]")

    def _other_fields(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        """Yield what is wrong with fields that have no name in the schema."""
        before, after = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from self._schemas(before, after, f"{where}.*")
        elif self._is_input and before is not False and after is not True:
            yield f"{_place(where)} refuses fields that it took before; ignore or take them as before."
        patterns = new.get("patternProperties", {})
        for pattern, schema in old.get("patternProperties", {}).items():
            if pattern in patterns:
                yield from self._schemas(schema, patterns[pattern], f"{where}.*")
            else:
                yield f"{_place(where)} has no fields by the pattern {pattern} any more; {self._keep}."

    def _values(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        before, after = _values_of(old), _values_of(new)
        if before is None and after is not None:
            yield f"{_place(where)} has only some values now; {self._keep}."
        elif before is not None and after is not None:
            for value in before:
                if value not in after:
                    yield f"{_place(where)} lost the value {value!r}; keep it, and describe it as an old one."
        elif before is not None and not self._is_input:
            yield f"{_place(where)} may have any value now; keep the list of values."

    def _fields(self, old: Schema, new: Schema, where: str) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed_before, needed_after = set(old.get("required", ())), set(new.get("required", ()))
        for name, schema in before.items():
            path = f"{where}.{name}".lstrip(".")
            if name not in after:
                yield f"{path} was removed; keep it, and say in its description what replaces it."
                continue
            if not self._is_input and name in needed_before - needed_after:
                yield f"{path} may be absent now; write it always, as before."
            if self._is_input and name not in needed_after and _default(schema) != _default(after[name]):
                yield f"{path} has another default; keep the one that programs without the field rely on."
            yield from self._schemas(schema, after[name], path)
        if self._is_input:
            for name in sorted(needed_after - needed_before):
                path = f"{where}.{name}".lstrip(".")
                yield f"{path} is required now; make it optional, with a default that means what was meant without it."


def _variants(root: Schema, schema: Any) -> dict[str, Schema]:
    """Return the alternatives of a schema by names that stay: the value of the field `type`, the name of the class, or
    the JSON type; ``any`` for one that accepts all.
    """
    variants: dict[str, Schema] = {}
    for name, alternative in _alternatives(root, schema, ""):
        fixed = alternative.get("properties", {}).get("type", {}).get("const")
        kinds = [str(fixed)] if fixed is not None else [name] if name else _kinds_of(alternative)
        variants |= dict.fromkeys(kinds, alternative)
    if len(variants) == 1:  # the name of a class says nothing where there is one alternative
        [(name, alternative)] = variants.items()
        return dict.fromkeys(_kinds_of(alternative), alternative)
    return variants


def _alternatives(root: Schema, schema: Any, name: str) -> Iterator[tuple[str, Schema]]:
    if not isinstance(schema, Mapping):
        if schema is not False:
            yield "", _ANYTHING
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        alternatives = [*_alternatives(root, target, name)]
        yield from (
            alternatives
            if len(alternatives) > 1
            else [(name if alternative.get("type") == "object" else "", alternative) for _, alternative in alternatives]
        )
        return
    inner = [alternative for keyword in ("anyOf", "oneOf") for alternative in schema.get(keyword, ())]
    if inner and all("const" in alternative for alternative in inner):  # an enum with a text beside each value
        yield name, _enum_of(inner)
        return
    for alternative in inner:
        yield from _alternatives(root, alternative, "")
    if not inner:
        yield name, schema


_ANYTHING: Schema = {}
_ENUMS: dict[tuple[Any, ...], Schema] = {}
"""Made once each, since pairs of schemas are known by their identity."""


def _enum_of(constants: Iterable[Schema]) -> Schema:
    values = tuple(constant["const"] for constant in constants)
    return _ENUMS.setdefault(values, {"type": "string", "enum": list(values)})


def _kinds_of(schema: Schema) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if kinds:
        return list(kinds)
    values = _values_of(schema)
    return sorted({_JSON_TYPES[type(value)] for value in values}) if values else ["any"]


_JSON_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _values_of(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return None if values is None else list(values)


def _default(schema: Any) -> Any:
    return schema.get("default") if isinstance(schema, Mapping) else None


def _bounds(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """Yield each limit that is narrower than before."""
    narrower = [name for name in _LEAST if name in new and new[name] > old.get(name, float("-inf"))]
    narrower += [name for name in _MOST if name in new and new[name] < old.get(name, float("inf"))]
    narrower += [name for name in _EXACT if name in new and new[name] != old.get(name)]
    for name in narrower:
        was = f"was {old[name]!r}" if name in old else "is new"
        yield f"{_place(where)}: {name} {new[name]!r} {was}; accept what was accepted."


def _place(where: str) -> str:
    return where or "the whole"


def _unexpected(where: str, name: str) -> str:
    return f"{_place(where)} may be {_kind(name)} now, which its readers do not expect; add a field for it."


def _kind(name: str) -> str:
    return {"any": "anything", "null": "null"}.get(name, f"'{name}'")
