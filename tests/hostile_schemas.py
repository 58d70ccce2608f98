"""Schemas, patterns and data that are made to take long, or to reach out of the schema."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

Data = Callable[[], Any]

_random = random.Random(7)
LETTERS = "a" * 100_000 + "!"
MIXED = "".join(_random.choice("ab") for _ in range(100_000))


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


PATTERNS = [
    r"(a+)+$",
    r"(a|a)*$",
    r"(\w+\s?)*$",
    r"(.*)*x",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(a|aa)+$",
    r"(a*)*b*(a*)*$",
    r"((a{1,100}){1,100}){1,100}",
    r"(a{0,255}){255}",
    r"(a?){5000}a{5000}",
    r"[ab]*a[ab]{3000}c",
    r"(a|b)*a(a|b){1500}c",
    r"a{1,1000000}",
    r"\p{L}{1,5000}",
    r"[^\x00]{1,3000}",
    r"(a)\1+$",
    r"(?<x>a)\k<x>",
    r"(?=a)b",
    r"(?<!a)b",
    r"(?>a+)b",
    r"(",
    r"[",
    r"a{2,1}",
    "(" * 1000 + ")" * 1000,
    "|".join(["a" * 50] * 1000),
    "\ud800",
]
"""Each is refused as a pattern, or applied to the texts above in linear time."""

OUTWARD: Mapping[str, Any] = {
    "http": {"$ref": "http://127.0.0.1:1/x"},
    "file": {"$ref": "file:///etc/passwd"},
    "another host": {"$ref": "//host/x"},
    "relative": {"$ref": "other.json"},
    "a fragment by name": {"$ref": "#name"},
    "percent": {"$ref": "%23/$defs/a"},
    "below an id": {"$id": "http://h/", "$ref": "other.json"},
    "an id inside": {"properties": {"a": {"$id": "http://h/", "$ref": "#/x"}}},
    "an anchor's loop": {"$defs": {"a": {"$anchor": "a", "$ref": "#a"}}, "$ref": "#/$defs/a"},
    "an anchor that is an address": {"$defs": {"a": {"$anchor": "http://127.0.0.1:1/x"}}},
    "dynamic": {"$dynamicRef": "#x"},
    "dynamic loop": {"$defs": {"a": {"$dynamicAnchor": "a", "$dynamicRef": "#a"}}, "$ref": "#/$defs/a"},
    "to itself": {"$ref": "#"},
    "a loop": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "a loop through dependents": {"dependentSchemas": {"a": {"$ref": "#"}}},
    "a dead pointer": {"$ref": "#/$defs/nope"},
    "in a default": {"properties": {"a": {"default": {"$ref": "file:///etc/passwd"}}}},
    "in a const": {"const": {"$ref": "http://h/"}},
    "in an enum": {"enum": [{"$ref": "http://h/"}]},
    "another dialect": {"$schema": "http://json-schema.org/draft-04/schema#"},
    "an unknown dialect": {"$schema": "http://example.org/mine"},
    "a file as dialect": {"$schema": "file:///etc/passwd"},
    "no type": {"type": "objct"},
    "a type that is a number": {"type": 5},
    "properties that are a list": {"properties": []},
    "divided by nothing": {"multipleOf": 0},
    "a number beyond 64 bits": {"maximum": 10**400},
    "a set": {"default": {1, 2}},
    "half a character": {"description": "\ud800"},
    "10 MB": {"description": "x" * 10_000_000},
    "5000 levels": _nested(5000),
    "2^40 checks": {
        "$ref": "#/$defs/a0",
        "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}},
    },
    "5000 alternatives": {"anyOf": [{"const": n} for n in range(5000)]},
    "a chain of 200": {
        "$ref": "#/$defs/a0",
        "$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(200)} | {"a200": {}},
    },
}
"""Each is refused as a schema."""


def _lists() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value, *range(150)]
    return value


def _operation(name: str) -> Any:
    operands = {side: {"$ref": "#/$defs/term"} for side in ("left", "right")}
    return {
        "type": "object",
        "required": ["op", "left", "right"],
        "properties": {"op": {"const": name}, **operands},
    }


def sum_of(levels: int, leaf: Any) -> Any:
    return {"op": "add", "left": sum_of(levels - 1, leaf), "right": sum_of(levels - 1, leaf)} if levels else leaf


def _below(levels: int) -> Any:
    return {"x": _below(levels - 1)} if levels else 1


def _alternatives(schema: Any, levels: int) -> Any:
    for _ in range(levels):
        schema = {"anyOf": [schema]}
    return schema


ALTERNATIVES = {"type": "array", "items": {"anyOf": [{"const": str(n)} for n in range(2000)]}}
UNION = {"type": "array", "items": {"anyOf": [{"properties": {f"p{n}": {"type": "integer"}}} for n in range(20)]}}
HEAVY: Mapping[str, tuple[Any, Data]] = {
    "3000 objects that differ": ({"uniqueItems": True}, lambda: [{"a": n, "b": [n]} for n in range(3000)]),
    "3000 objects, one twice": ({"uniqueItems": True}, lambda: [{"a": n % 2999} for n in range(3000)]),
    "100,000 numbers, one twice": ({"uniqueItems": True}, lambda: [*range(100_000), 5]),
    "50,000 texts of 2000 alternatives": (ALTERNATIVES, lambda: ["x"] * 50_000),
    "50,000 texts of the last alternative": (ALTERNATIVES, lambda: ["1999"] * 50_000),
    "4000 texts of 2000 alternatives": (ALTERNATIVES, lambda: ["x"] * 4000),
    "5000 objects of a union": (UNION, lambda: [{f"p{n}": "x" for n in range(20)}] * 5000),
    "90,000 problems": ({"items": {"type": "integer"}}, lambda: ["x"] * 90_000),
    "40,000 problems of three kinds": (
        {"items": {"items": {"maxItems": 1}, "minItems": 2}},
        lambda: [[[1, 2]]] * 40_000,
    ),
    "50,000 names beside 50 alternatives": (
        {"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}] * 50},
        lambda: {f"a{n}": 1 for n in range(50_000)},
    ),
    "90,000 names beside 100 alternatives": (
        {"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}] * 100},
        lambda: {f"a{n}": 1 for n in range(90_000)},
    ),
    "an e-mail address of 100,000 signs": ({"format": "email"}, lambda: "@" * 100_000),
    "an address of 50,000 brackets": ({"format": "uri"}, lambda: "http://" + "[" * 50_000),
    "a pattern as format": ({"format": "regex"}, lambda: "(" * 100_000),
    "an unknown format": ({"format": "nope"}, lambda: "x" * 100_000),
    "an enum of 10,000": ({"items": {"enum": list(range(10_000))}}, lambda: [1.5] * 4000),
    "2000 required names of 3000 objects": (
        {"items": {"required": [f"r{n}" for n in range(2000)]}},
        lambda: [{}] * 3000,
    ),
    "a large constant": ({"items": {"const": list(range(5000))}}, lambda: [1] * 5000),
    "what may not be a large enum": ({"items": {"not": {"enum": list(range(5000))}}}, lambda: [1] * 5000),
    "60 levels that are too long": (
        {"maxItems": 0, "items": {"$ref": "#"}},
        _lists,
    ),
    "1 MiB for a large pattern": ({"items": {"pattern": "[ab]*a[ab]{3000}c"}}, lambda: [MIXED] * 10),
    "1 MiB for a small pattern": ({"pattern": "[ab]*a[ab]{20}c"}, lambda: MIXED * 10),
    "as much text as a small pattern is applied to": ({"pattern": "[ab]*a[ab]{20}c"}, lambda: MIXED[:50_000]),
    "as much text as a large pattern is applied to": ({"pattern": "[ab]*a[ab]{300}c"}, lambda: MIXED[:4_900]),
    "as much text as alternatives of alternatives are applied to": (
        _alternatives({"pattern": "[ab]*a[ab]{60}c"}, 8),
        lambda: MIXED[:7_500],
    ),
    "1000 patterns for one text": (
        {"allOf": [{"pattern": f"[ab]*a[ab]{{6}}c{n}"} for n in range(1000)]},
        lambda: MIXED,
    ),
    "a union of itself whose leaf does not fit": (
        {
            "$ref": "#/$defs/term",
            "$defs": {"term": {"oneOf": [{"type": "number"}, *map(_operation, ("add", "sub", "mul"))]}},
        },
        lambda: sum_of(8, "x"),
    ),
    "a chain that doubles at each level": (
        {
            "$ref": "#/$defs/n",
            "$defs": {"n": {"type": "object", "allOf": [{"properties": {"x": {"$ref": "#/$defs/n"}}}] * 2}},
        },
        lambda: _below(40),
    ),
    "100 patterns for one text of 230 characters": (
        {"allOf": [{"pattern": f"[ab]*a[ab]{{60}}c{n}"} for n in range(100)]},
        lambda: MIXED[:230],
    ),
    "100,000 characters as names": ({"patternProperties": {"[ab]*a[ab]{1500}c": {}}}, lambda: {MIXED: 1}),
    "half a character": ({"pattern": "a"}, lambda: "\ud800"),
    "a schema that is false": ({"properties": {"a": False}}, lambda: {"a": 1}),
    "a name of Python's": ({"properties": {"__proto__": {"type": "string"}}}, lambda: {"__proto__": 1}),
    "a name of JavaScript's": ({"properties": {"constructor": False}}, lambda: {"constructor": {}}),
}
"""A schema and data that takes long if nothing is limited; the answer is a list of sentences, perhaps an empty one."""
