"""A provider's error is quoted as a sentence, whatever its form, and without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models.error_bodies import MAX_CHARS, parse_error_body
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
