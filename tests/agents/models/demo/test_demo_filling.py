"""Schemas filled from sentences."""

from datetime import date

import pytest

from agents.models.demo.schema_filler import date_in, fill, time_in
from config.definitions.loading import load_definition
from config.definitions.schemas.json_schema import check_schema, schema_errors
from config.settings import ROOT

CALENDAR = load_definition(ROOT / "config" / "agents" / "calendar.yaml").output_schema or {}
TODAY = date(2026, 11, 20)  # a Friday


def test_fills_a_calendar_entry():
    entry = fill(
        CALENDAR, "Lunch with Maria Rossi and Tom Baker on 3 December 2026 at 12:30 in Lisbon, mail tom@baker.example"
    )

    assert entry == {
        "title": "Lunch with Maria Rossi and Tom Baker",
        "date": "2026-12-03",
        "start": "12:30",
        "place": "Lisbon",
        "people": ["Maria Rossi", "Tom Baker"],
        "email": "tom@baker.example",
    }


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("at 12:30 in Lisbon. Tom Baker comes as well.", "Lisbon"),
        ("a talk in St. Louis on Monday", "St. Louis"),
        ("dinner in New York City", "New York City"),
    ],
)
def test_a_place_ends_with_its_sentence(text, location):
    assert fill(CALENDAR, text)["place"] == location


def test_what_is_not_said_is_null_or_empty():
    assert fill(CALENDAR, "hello") == {
        "title": "Hello",
        "date": None,
        "start": None,
        "place": None,
        "people": [],
        "email": None,
    }


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "...",
        "hello",
        "x" * 5000,
        "Meet Tom in Paris on May 5th at 7pm",
        "\u202e",
        "31 February at 99:99",
        "é" * 300,
    ],
)
def test_the_shipped_schema_is_always_fitted(sentence):
    assert schema_errors(CALENDAR, fill(CALENDAR, sentence)) == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("on 2026-12-03", date(2026, 12, 3)),
        ("on 3 December", date(2026, 12, 3)),
        ("on the 3rd of December 2027", date(2027, 12, 3)),
        ("today", TODAY),
        ("tomorrow", date(2026, 11, 21)),
        ("next Friday", date(2026, 11, 27)),
        ("on Monday", date(2026, 11, 23)),
        ("31 February 2026", None),
        ("some day", None),
    ],
)
def test_reads_dates(text, day):
    assert date_in(text, TODAY) == day


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("at 9am", "09:00"),
        ("at 12:30", "12:30"),
        ("12am", "00:00"),
        ("at 25:00", None),
    ],
)
def test_reads_times(text, time):
    assert time_in(text) == time


PERSON = {
    "type": "object",
    "required": ["name", "age", "urgent", "mood", "tags", "address", "kind"],
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"], "minimum": 0},
        "urgent": {"type": "boolean"},
        "mood": {"enum": ["happy", "sad", "neutral"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"$ref": "#/$defs/address"},
        "kind": {"const": "person"},
    },
    "$defs": {"address": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}},
}


def test_fills_other_schemas_too():
    person = fill(PERSON, "This is Ada King, a happy engineer in London, age 36, urgent")

    assert schema_errors(PERSON, person) == []
    assert person["name"] == "Ada King"
    assert (person["age"], person["mood"], person["urgent"], person["kind"]) == (36, "happy", True, "person")
    assert person["address"] == {"city": "London"}


def test_a_schema_that_contains_itself_ends():
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "child": {"$ref": "#"}}}
    check_schema(schema)

    assert fill(schema, "A tree")["title"] == "A tree"


@pytest.mark.parametrize(
    "field", [True, {}, {"$ref": "#/$defs/0/missing"}, {"anyOf": [{"$ref": "#"}, {"type": "null"}]}]
)
def test_a_field_that_allows_any_value_is_filled_too(field):
    schema = {"type": "object", "properties": {"a": field}, "required": ["a"], "$defs": {"0": {}}}

    assert list(fill(schema, "A tree")) == ["a"]
