import pytest

from agents.governance.guardrails.personal import personal_spans
from config.definitions.guardrails.checks import PersonalData
from tests.agents.governance.guardrails.samples import PERSONAL


def found(kind: str, text: str) -> list[str]:
    return [text[start:end] for start, end in personal_spans(PersonalData(kind), text)]


@pytest.mark.parametrize(("kind", "sample"), [(kind, example) for kind, some in PERSONAL.items() for example in some])
def test_each_form_is_found_inside_a_sentence(kind, sample):
    assert found(kind, f"Ä: {sample}. And {sample}, ok") == [sample, sample]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("email", "user@host, @mention, a@b, x@.com"),
        ("iban", "DE89 3704 0044 0532 0130 01 has a wrong check digit"),
        ("iban", "DE89 3704 0044 0532 is too short"),
        ("iban", "ZZ89 3704 0044 0532 0130 00 is of no country"),
        ("card", "4111 1111 1111 1112 is mistyped"),
        ("card", "0000 0000 0000 0000"),
        ("card", "order 12345678901234567890123456"),
        ("card", "2024-01-01 2024-01-02 2024-01-03"),
        ("phone", "2026-11-23 08:15:00, version 1.2.3.4, 10.0.0.1"),
        ("phone", "+1 is no number"),
    ],
)
def test_what_only_looks_similar_stays(kind, text):
    assert found(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("card", "12 4111 1111 1111 1111 12/27", ["4111 1111 1111 1111"]),
        ("card", "4111 1111 1111 1111 123", ["4111 1111 1111 1111"]),
        ("iban", "DE89 3704 0044 0532 0130 00 EUR 25", ["DE89 3704 0044 0532 0130 00"]),
        ("email", "<jane@example.org>;bob@example.org", ["jane@example.org", "bob@example.org"]),
    ],
)
def test_neighbours_neither_hide_it_nor_go_with_it(kind, text, expected):
    assert found(kind, text) == expected
