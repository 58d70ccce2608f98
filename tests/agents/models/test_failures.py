"""A provider's error is quoted as a sentence, whatever its form, and without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models.errors import MODEL_REFUSED, MODEL_TIMEOUT, ModelFailed
from agents.models.failures import MAX_CHARS, may_retry, parse_error_body, retry_delay_s
from config.redaction import register_secrets


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"error": {"message": "You are out.", "type": "t", "code": "c"}}', "You are out"),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', "Overloaded"),
        (b'[{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID"}}]', "API key not valid"),
        (b'{"detail": [{"loc": ["body", "x"], "msg": "field required"}]}', "field required"),
        (b'{"error": "model not found"}', "model not found"),
        (b'{"message": "{\\"error\\": {\\"message\\": \\"inside\\"}}"}', "inside"),
        (
            b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head></html>",
            "a page of HTML, '502 Bad Gateway'",
        ),
        ("OpenAIException - {'error': {'message': 'x'}}", "OpenAIException - {'error': {'message': 'x'}}"),
        ('Exception - {"error": {"message": "said here", "code": 7}}', "said here"),
        (b"upstream   connect\nerror", "upstream connect error"),
        (b"", ""),
        (b"[[[[[[[[{}", ""),
        ({"message": {"message": {"message": {"message": {"message": "deep"}}}}}, ""),
    ],
)
def test_an_error_body_becomes_one_sentence(body: Any, sentence: str) -> None:
    assert parse_error_body(body).text == sentence


def test_its_kinds_are_kept() -> None:
    error_body = parse_error_body(b'{"error": {"message": "no", "type": "insufficient_quota", "code": 429}}')

    assert error_body.kinds == {"insufficient_quota", "429"}


@pytest.mark.parametrize("before", [0, MAX_CHARS - 10, MAX_CHARS - 1])
def test_a_secret_is_gone_also_where_the_sentence_is_cut(before: int) -> None:
    register_secrets(["plain words of a secret that is never guessed"])

    text = parse_error_body("x" * before + "plain words of a secret that is never guessed").text

    assert "plain" not in text
    assert len(text) <= MAX_CHARS


def test_only_what_may_pass_is_tried_again_and_at_most_three_times() -> None:
    failed, late, refused = ModelFailed("x"), MODEL_TIMEOUT("x"), MODEL_REFUSED("x")

    assert [may_retry(attempt, failed) for attempt in (1, 2, 3)] == [True, True, False]
    assert may_retry(1, late)
    assert not may_retry(1, refused)


def test_the_wait_starts_at_half_a_second_doubles_and_varies_by_half_up_to_the_cap() -> None:
    error = ModelFailed("x")

    assert [retry_delay_s(attempt, error, lambda: 0.0) for attempt in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 60.0]
    assert [retry_delay_s(attempt, error, lambda: 1.0) for attempt in (1, 2, 3, 20)] == [0.75, 1.5, 3.0, 60.0]


@pytest.mark.parametrize(("retry_after_s", "least", "most"), [(7.0, 7.0, 7.7), (0.0, 0.0, 0.0), (3600.0, 60.0, 60.0)])
def test_what_the_provider_asks_for_is_kept_within_a_tenth_and_the_cap(
    retry_after_s: float, least: float, most: float
) -> None:
    error = ModelFailed("x", retry_after_s=retry_after_s)

    assert retry_delay_s(1, error, lambda: 0.0) == pytest.approx(least)
    assert retry_delay_s(1, error, lambda: 1.0) == pytest.approx(most)
