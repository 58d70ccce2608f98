"""From a plain function to the schema that the model gets."""

import enum
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from agents.errors import ArgumentsInvalid
from agents.tools import tool
from agents.tools.schema import build_tool, parse_arguments, validate_arguments
from config.definitions.errors import ToolUnknown
from config.effects import Effect


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    number: int = 1


class Person(BaseModel):
    name: str
    friends: "list[Person]" = []


@tool(effect="pure", timeout_s=3, confirm=True)
def paint(
    wall: str,
    colour: Colour,
    coats: Annotated[int, Field(ge=1, le=5)] = 2,
    finish: Literal["matt", "gloss"] = "matt",
    where: Address | None = None,
) -> str:
    """Paint a wall.

    It takes a while.

    Args:
        wall: which one,
            counted from the door
        colour (Colour): what colour.

    Returns:
        wall: not an argument.
    """
    return f"{wall} {colour!r} {coats} {where}"


def test_a_tool_that_has_to_be_checked_and_cannot_be_is_refused_when_it_is_built():
    @tool(effect="checkable")
    def book(room: str) -> str:
        """Book a room."""
        return room

    with pytest.raises(ToolUnknown, match=r"'book' .* has no `check`"):
        build_tool(book)


def test_name_docstring_hints_and_marks_become_the_tool():
    built = build_tool(paint)

    assert (built.name, built.description) == ("paint", "Paint a wall.\n\nIt takes a while.")
    assert (built.effect, built.timeout_s, built.confirm, built.is_async) == (Effect.PURE, 3, True, False)
    schema = dict(built.parameters)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["wall", "colour"]
    assert schema["properties"]["wall"] == {"type": "string", "description": "which one, counted from the door"}
    assert schema["properties"]["coats"] == {"type": "integer", "minimum": 1, "maximum": 5, "default": 2}
    assert schema["properties"]["finish"]["enum"] == ["matt", "gloss"]
    assert schema["properties"]["colour"] == {"$ref": "#/$defs/Colour", "description": "what colour."}


def test_a_function_without_marks_is_unsafe():
    def send(text: str) -> None:
        """Send it."""

    assert build_tool(send).effect is Effect.UNSAFE


def test_arguments_become_what_the_hints_say():
    built = build_tool(paint)

    text = built.function(wall="north", colour="red", where={"street": "Main"})

    assert text == "north <Colour.RED: 'red'> 2 Address(street='Main', number=1)"


def test_a_schema_may_refer_to_itself():
    def invite(person: Person) -> int:
        """Invite a person and their friends."""
        return len(person.friends)

    built = build_tool(invite)
    arguments = {"person": {"name": "Ada", "friends": [{"name": "Tom"}]}}
    validate_arguments(built, arguments)

    assert built.function(**arguments) == 1


def test_arguments_may_have_any_name():
    def odd(model_config: int, _x: int = 1, self: int = 2) -> int:
        """Add."""
        return model_config + _x + self

    assert build_tool(odd).function(model_config=1, _x=2) == 5


async def nothing():
    """Do nothing."""


def test_an_async_function_stays_one():
    assert build_tool(nothing).is_async


def star(*a: int):
    """X."""


def stars(**a: int):
    """X."""


def slash(a: int, /):
    """X."""


def bare(a):
    """X."""


def silent(a: int):
    pass


def strange(a: "Nope"):  # type: ignore[name-defined]  # noqa: F821 - that is the point
    """X."""


def odd_type(a: object, b: Colour, c: type):
    """X."""


@tool(name="a b")
def misnamed(a: int):
    """X."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (star, r"takes \*a, which no schema"),
        (stars, r"takes \*\*a, which no schema"),
        (slash, "by position only"),
        (bare, "'a' has no type; write `a: str`"),
        (silent, "has no docstring"),
        (strange, "name 'Nope' is not defined"),
        (odd_type, "type of 'c' has no JSON Schema"),
        (misnamed, "needs a name of letters"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason(function, words):
    with pytest.raises(ToolUnknown, match=words):
        build_tool(function)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"wall": "n"}, '"colour" is a required property'),
        ({"wall": 1, "colour": "red"}, 'wall: 1 is not of type "string"'),
        ({"wall": "n", "colour": "green"}, "colour: "),
        ({"wall": "n", "colour": "red", "coats": 9}, "coats: 9 is greater than"),
        ({"wall": "n", "colour": "red", "extra": 1}, "'extra' was unexpected"),
        ({"wall": "n", "colour": "red", "__proto__": {}}, "__proto__"),
    ],
)
def test_arguments_that_do_not_fit_are_reported_where(arguments, words):
    with pytest.raises(ArgumentsInvalid, match="the arguments of paint do not fit") as caught:
        validate_arguments(build_tool(paint), arguments)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ('{"a": 1, "b": [1.5, null, true]}', {"a": 1, "b": [1.5, None, True]}),
        ('{"a": "é \\ud83d\\ude00"}', {"a": "é 😀"}),
        ('{"a": "' + "[" * 500 + '"}', {"a": "[" * 500}),
        ('{"a\\\\": "\\"' + "[" * 500 + '", "b": "]"}', {"a\\": '"' + "[" * 500, "b": "]"}),
        ('{"a": "' + "[" * 200_000 + '", "b": []}', {"a": "[" * 200_000, "b": []}),
        ('{"lc": 1, "__class__": "x", "$ref": "http://h"}', {"lc": 1, "__class__": "x", "$ref": "http://h"}),
    ],
)
def test_reads_objects(text, value):
    assert parse_arguments(text) == value


AMBIGUOUS = [
    ("[]", "JSON object"),
    ('"x"', "JSON object"),
    ("null", "JSON object"),
    ("{", "not JSON"),
    ("{'a': 1}", "not JSON"),
    ('{"a": 1} x', "not JSON"),
    ("\ufeff{}", "not JSON"),
    ('{"a": 1, "a": 2}', "'a' is there twice"),
    ('{"a": {"b": 1, "b": 1}}', "'b' is there twice"),
    ('{"a": NaN}', "NaN is not JSON"),
    ('{"a": -Infinity}', "-Infinity is not JSON"),
    ('{"a": 1e400}', "too large"),
    ('{"a": ' + "9" * 4301 + "}", "4301 digits"),
    ('{"a": ' + "9" * 30 + "}", "64 bits"),
    ("[" * 100_000, "nested more than 64"),
    ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64"),
    ('{"\\\\":' * 65 + "1" + "}" * 65, "nested more than 64"),
    ('{"a": "' + "x[" * 100_000 + '", "b": ' + "[" * 65, "nested more than 64"),
    ('{"a": "\\ud800"}', "surrogate"),
    ('{"a": "\ud800"}', "surrogate"),
    ('{"a": "' + "x" * 1024 * 1024 + '"}', "1,048,576"),
    ('{"a": "' + '\\"' * 300_000, "not JSON"),
]


@pytest.mark.parametrize(("text", "words"), AMBIGUOUS)
def test_what_two_readers_could_read_differently_is_refused(text, words):
    with pytest.raises(ArgumentsInvalid, match=words):
        parse_arguments(text)
