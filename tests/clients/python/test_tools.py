"""Functions as tools: what is said of them, and JSON data as values of their types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from callboard_client.tools import Effect, ToolUnusable, idempotency_key, tool
from callboard_client.tools.described import describe
from callboard_client.tools.protocol import Service
from callboard_client.tools.values import Misfit, from_json, to_json
from config import effects
from config.definitions.schemas.json_schema import check_schema, schema_errors


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Floor(IntEnum):
    GROUND = 0
    FIRST = 1


class Line(TypedDict):
    item: str
    count: NotRequired[int]


@dataclass
class Address:
    street: str
    floor: Floor = Floor.GROUND
    lines: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.street:
            raise ValueError("a street has a name")


class Customer(BaseModel):
    name: str
    age: int = Field(ge=0)


@dataclass
class Node:
    children: list[Node]


VALUES: list[tuple[Any, Any, Any]] = [
    (Any, [1], [1]),
    (str, "a", "a"),
    (int, 3, 3),
    (int, 3.0, 3),
    (float, 3, 3.0),
    (bool, True, True),
    (None | int, None, None),
    (int | str, "3", "3"),
    (date, "2026-11-23", date(2026, 11, 23)),
    (datetime, "2026-11-23T12:00:00Z", datetime(2026, 11, 23, 12, tzinfo=UTC)),
    (time, "12:30:00", time(12, 30)),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (Decimal, "1.50", Decimal("1.50")),
    (Literal["a", 1], 1, 1),
    (Size, "l", Size.LARGE),
    (Floor, 1, Floor.FIRST),
    (Annotated[int, "how many"], 3, 3),
    (list[date], ["2026-11-23"], [date(2026, 11, 23)]),
    (Sequence[int], [1, 2], [1, 2]),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], [1, "a"], (1, "a")),
    (set[int], [1, 1], {1}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (dict[str, Size], {"a": "s"}, {"a": Size.SMALL}),
    (Mapping[str, Any], {"a": 1}, {"a": 1}),
    (Line, {"item": "Emma"}, {"item": "Emma"}),
    (
        Address,
        {"street": "Elm", "floor": 1, "lines": [{"item": "x", "count": 2}]},
        Address("Elm", Floor.FIRST, [{"item": "x", "count": 2}]),
    ),
    (Customer, {"name": "Ann", "age": 3}, Customer(name="Ann", age=3)),
]


@pytest.mark.parametrize(("hint", "data", "value"), VALUES)
def test_json_data_becomes_a_value_of_the_type(hint: Any, data: Any, value: Any) -> None:
    result = from_json(hint, data, "it")

    assert (result, type(result)) == (value, type(value))


MISFITS: list[tuple[Any, Any, str]] = [
    (str, 3, "it is 3, and has to be text"),
    (int, True, "it is true, and has to be a whole number"),
    (int, 3.5, "it is 3.5, and has to be a whole number"),
    (int, float("inf"), "it is inf, and has to be a whole number"),
    (float, "3", "it is '3', and has to be a number"),
    (float, 10**400, f"it is {'1' + '0' * 79}, and has to be a number"),
    (bool, 1, "it is 1, and has to be true or false"),
    (int | None, "x", "it is 'x', and has to be a whole number"),
    (int | bool, "x", "it is 'x', and has to be a whole number; or it is 'x', and has to be true or false"),
    (date, "yesterday", "it is 'yesterday', and has to be a date such as 2026-11-23"),
    (UUID, "1", "it is '1', and has to be a UUID"),
    (Decimal, "one", "it is 'one', and has to be a decimal number as text, such as '12.50'"),
    (Literal["a", 1], True, "it is true, and has to be one of 'a', 1"),
    (Size, "m", "it is 'm', and has to be one of 's', 'l'"),
    (list[int], {}, "it is an object, and has to be a list"),
    (list[int], [1, "x"], "it[1] is 'x', and has to be a whole number"),
    (tuple[int, str], [1], "it is a list of 1, and has to be a list of 2 values"),
    (set, [[1]], "it is a list of 1, and has to be a list of simple values"),
    (dict[str, int], {"a": None}, "it.a is null, and has to be a whole number"),
    (Line, {"count": "x"}, "it.item is missing; it.count is 'x', and has to be a whole number"),
    (Address, {"street": "Elm", "town": "X"}, "there is no it.'town'; known: street, floor, lines"),
    (Address, {"street": ""}, "it: a street has a name"),
    (Customer, {"name": "Ann", "age": -1}, "it.age: Input should be greater than or equal to 0"),
]


@pytest.mark.parametrize(("hint", "data", "sentence"), MISFITS)
def test_what_does_not_fit_is_named_with_its_place(hint: Any, data: Any, sentence: str) -> None:
    with pytest.raises(Misfit) as caught:
        from_json(hint, data, "it")

    assert str(caught.value) == sentence


@pytest.mark.parametrize(("hint", "data", "value"), VALUES)
def test_a_value_goes_out_as_it_would_come_in(hint: Any, data: Any, value: Any) -> None:
    assert from_json(hint, json.loads(json.dumps(to_json(value))), "it") == value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (float("nan"), "the result has the number nan, which JSON has no form for; return None or a text"),
        (object(), "the result has a value of the type object, which JSON has no form for; return text, "),
        ({"a": [b"x"]}, "the result has a value of the type bytes"),
    ],
)
def test_a_value_without_a_json_form_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(Misfit) as caught:
        to_json(value)

    assert str(caught.value).startswith(sentence)


def described(hint: Any, returns: Any = None) -> Any:
    def function(value):
        """Do it."""

    function.__annotations__ = {"value": hint, "return": returns}
    return describe(tool(function))


@pytest.mark.parametrize(("hint", "data", "value"), VALUES)
def test_the_schema_accepts_what_the_type_does(hint: Any, data: Any, value: Any) -> None:
    definition = described(hint)

    check_schema(definition.input_schema)
    assert schema_errors(definition.input_schema, {"value": data}) == []


@pytest.mark.parametrize(("hint", "data", "value"), VALUES)
def test_the_output_schema_accepts_what_the_type_becomes(hint: Any, data: Any, value: Any) -> None:
    definition = described(str, hint)

    _, structured = definition.write(value)

    if definition.output_schema is not None:
        check_schema(definition.output_schema)
        assert definition.output_schema["type"] == "object"
        assert schema_errors(definition.output_schema, structured) == []
    assert (definition.output_schema is None) == (hint in (Any, str))


def test_a_class_that_contains_itself_is_refused() -> None:
    with pytest.raises(ToolUnusable, match="value has a type that contains itself; use dict or a pydantic model"):
        described(Node)


@pytest.mark.parametrize("returns", [None, str, Any])
def test_a_result_without_a_structure_has_no_schema(returns: Any) -> None:
    assert described(int, returns).output_schema is None


def test_an_object_without_an_annotation_is_structured_all_the_same() -> None:
    definition = described(int, Any)

    assert definition.write({"a": 1}) == ({"a": 1}, {"a": 1})
    assert definition.write([1]) == ([1], None)


def test_the_function_stays_an_ordinary_one() -> None:
    @tool(effect=Effect.PURE)
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    assert double(2) == 4
    assert idempotency_key() is None


def test_effects_are_those_of_callboard() -> None:
    assert {effect.value for effect in Effect} == {effect.value for effect in effects.Effect} - {"checkable"}


VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def answered(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the answer to one request to a server with one tool."""
    lines: list[bytes] = []
    service = Service([described(int)], "shop.tools", lines.append)

    service.take(json.dumps({"jsonrpc": "2.0", "id": "a", "method": method, "params": params or {}}).encode())

    [line] = lines
    answer: dict[str, Any] = json.loads(line)
    assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", "a")
    return answer


@pytest.mark.parametrize(
    ("version", "agreed"), [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("2030-01-01", "2025-11-25")]
)
def test_a_handshake_agrees_on_a_version(version: str, agreed: str) -> None:
    result = answered("initialize", {"protocolVersion": version, "capabilities": {}})["result"]

    assert (result["protocolVersion"], result["serverInfo"]["name"]) == (agreed, "shop.tools")
    assert result["capabilities"] == {"tools": {}}


def test_a_request_of_the_newer_version_has_what_it_needs() -> None:
    result = answered("server/discover", {"_meta": VERSION})["result"]

    assert (result["supportedVersions"], result["resultType"]) == (["2026-07-28"], "complete")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "shop.tools"
    assert answered("tools/list", {"_meta": VERSION})["result"]["cacheScope"] == "private"


MODERN = "io.modelcontextprotocol/protocolVersion"
REFUSALS: list[tuple[str, Mapping[str, Any], int]] = [
    ("tools/list", {"_meta": {MODERN: "2026-07-28"}}, -32602),
    ("tools/list", {"_meta": {**VERSION, MODERN: 1}}, -32602),
    ("tools/list", {"_meta": {**VERSION, MODERN: "2031-01-01"}}, -32022),
    ("initialize", {"_meta": VERSION, "protocolVersion": "2025-11-25"}, -32022),
    ("server/discover", {}, -32601),
    ("resources/list", {}, -32601),
    ("tools/list", {"cursor": "x"}, -32602),
    ("tools/call", {"name": ["function"]}, -32602),
    ("tools/call", {"name": "function", "arguments": [1]}, -32602),
]


@pytest.mark.parametrize(("method", "params", "code"), REFUSALS)
def test_other_requests_are_refused_with_the_protocols_code(method: str, params: Mapping[str, Any], code: int) -> None:
    error = answered(method, params)["error"]

    assert error["code"] == code
    if code == -32022:
        assert error["data"]["supported"] == ["2026-07-28"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["initialize", "server/discover", "ping", "tools/list", "notifications/cancelled", "x"])
MEMBERS = {
    "id": JSON,
    "method": METHODS | JSON,
    "params": JSON | st.fixed_dictionaries({"_meta": JSON}),
    "result": JSON,
}


@given(st.fixed_dictionaries({}, optional={"jsonrpc": st.just("2.0") | JSON, **MEMBERS}) | JSON)
def test_any_message_is_answered_at_most_once(message: Any) -> None:
    lines: list[bytes] = []

    Service([described(int)], "shop.tools", lines.append).take(json.dumps(message).encode("utf-8", "replace"))

    assert len(lines) <= 1
    for line in lines:
        answer = json.loads(line)
        assert answer["jsonrpc"] == "2.0"
        assert ("error" in answer) != ("result" in answer)
        assert "error" not in answer or isinstance(answer["error"]["code"], int)
    if isinstance(message, dict) and message.get("jsonrpc") == "2.0" and isinstance(message.get("id"), str):
        assert lines or "method" not in message


def test_marks_name_what_they_are_on() -> None:
    make: Callable[..., Any] = tool
    for arguments, sentence in (({"effect": "x"}, "there is no effect 'x'"), ({"timeout_s": -1}, "timeout_s is -1")):
        with pytest.raises(ToolUnusable, match=sentence):
            make(**arguments)
