"""A scan of JSON data: one look at the whole, and at each text where that does not say that it is clean."""

from __future__ import annotations

import pytest

from agents.governance.guardrails.scan import Scan, personal_spans, scan_of
from config.definitions.guardrails.checks import Checks, PatternCheck, PersonalData
from config.redaction.redacted_data import Detection, SecretScan, cleaned_data
from tests.agents.governance.guardrails.samples import KEYS, NAMED, PERSONAL, REGISTERED, redactor

PATTERNS = (r"TICKET-\d{4,6}", r"(?i)^geheim: [^?]{3}", r"k\b$", r"größe-\w+")
CHECKS = Checks(
    pii="redact", patterns=tuple(PatternCheck(name=f"own-{at}", pattern=text) for at, text in enumerate(PATTERNS))
)
SAMPLES = (*KEYS, *NAMED, *REGISTERED, *(sample for samples in PERSONAL.values() for sample in samples))
OWN = ("TICKET-20041", "GEHEIM: öäü", "k", "größe-äx")


class EachRule(Scan):
    """A scan that asks every rule about every text."""

    def _has_none_of(self, text: str, patterns: tuple[str, ...]) -> bool:
        return False


AROUND = ("{}", "a {}, b", "–{}é", "é{}–", "ſ\u212a{}", "{}\ud800", "\n{}\n")


@pytest.mark.parametrize("sample", [*SAMPLES, *OWN], ids=[text[:12] for text in (*SAMPLES, *OWN)])
def test_the_search_before_all_rules_misses_nothing_that_one_finds(sample: str) -> None:
    scan, each = Scan(CHECKS, redactor()), EachRule(CHECKS, redactor())

    for text in (around.format(part) for around in AROUND for part in (sample, sample.upper(), sample[:-1])):
        assert scan.clean(text) == each.clean(text)
        detections = list[Detection]()
        result = cleaned_data(scan, {"note": [text]}, detections)
        assert not scan.finds_nothing({"note": [text]}) or (result, detections) == ({"note": [text]}, [])


def test_a_usual_text_is_asked_no_rule_about() -> None:
    assert Scan(CHECKS, redactor()).finds_nothing("Zwei Kisten für 12 Kunden, in 3 Tagen, z. B. am 4.5.")


@pytest.mark.parametrize(
    "data",
    [
        {"note": "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"},
        {"password": "hunter2222"},
        {"note": "a\nBearer\nabcdefgh1jkl"},
        {"sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12": 1},
        ["x", {"deep": ["api_key=abcdefg1"]}],
        "token of the API: api_key = abcdefg1",
        {"authorization": "Basic dXNlcjpwYXNzd29yZA=="},
    ],
)
def test_data_is_clean_as_a_whole_only_where_each_of_its_texts_is(data: object) -> None:
    scan, detections = scan_of(Checks()), list[Detection]()
    cleaned_data(scan, data, detections)

    assert detections
    assert not scan.finds_nothing(data)


def test_usual_data_is_clean_at_one_look() -> None:
    data = {"order": "o-1", "boxes": 3, "note": "für den zweiten Stock", "total_eur": 74.7, "urgent": False}

    assert scan_of(Checks(pii="redact")).finds_nothing(data)


@pytest.mark.parity
def test_large_patterns_are_sought_one_by_one() -> None:
    large = tuple(PatternCheck(name=f"p{at}", pattern=rf"x{at}" + r"(\w{1,60}-){15}" * 8) for at in range(4, 8))
    scan = Scan(Checks(patterns=large), redactor())

    assert scan.clean(f"my x7{'a-' * 120}") == ("my [redacted]", [Detection("p7", "redact")])


@pytest.mark.parametrize("long", ["", "word " * 200], ids=["short", "long"])
@pytest.mark.parametrize("sample", SAMPLES, ids=[text[:12] for text in SAMPLES])
def test_where_nothing_is_configured_the_scan_finds_what_the_scan_for_secrets_finds(sample: str, long: str) -> None:
    data = {"note": f"{long}{sample}", "password": sample, sample: 1, "list": [sample, 4_111_111_111_111_111]}
    of_data, of_secrets = list[Detection](), list[Detection]()

    assert cleaned_data(Scan(Checks(), redactor()), data, of_data) == cleaned_data(
        SecretScan(redactor()), data, of_secrets
    )
    assert of_data == of_secrets


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
