"""Every 429 and every 503 says when to try again: from each declared call, and of each error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cli.dev.error_catalogue import error_kinds
from config.errors import ErrorRow
from config.settings import Settings
from tests.web.conftest import opened, process_of
from web.app import create_app
from web.auth.authentication import HEALTH_ENDPOINTS, OPEN_ENDPOINTS
from web.auth.webhooks import WEBHOOK_ENDPOINT
from web.calls.document import Operation, operations_of
from web.problems import BY_STATUS, of_error
from web.server.refusals import refusal

BUSY = (429, 503)
KINDS = {kind.code: kind for kind in error_kinds() if kind.status in BUSY}


def ask(client: FlaskClient, operation: Operation) -> Any:
    """Call it with placeholders for the parts of its path, and without a body."""
    return client.open(re.sub(r"{\w+}", "x", operation.path), method=operation.method.upper())


def wrong(client: FlaskClient, status: int, but: frozenset[str] = frozenset()) -> list[str]:
    """Return the calls whose answer has another status, or no seconds to wait."""
    calls = [operation for operation in operations_of(client.application) if operation.endpoint not in but]
    answers = [(call.name, ask(client, call)) for call in calls]
    assert len(answers) > 30
    return [
        f"{name}: {answer.status}"
        for name, answer in answers
        if answer.status_code != status or int(answer.headers.get("Retry-After", 0)) < 1
    ]


@pytest.fixture
def limited(settings: Settings) -> Iterator[Flask]:
    with opened(settings.model_copy(update={"principal_requests_per_minute": 1})) as runner:
        app = create_app(runner.settings, runner)
        yield app
        process_of(app).close()


def test_every_call_beyond_a_limit_says_when_to_try_again(limited: Flask) -> None:
    client = limited.test_client()
    assert client.get("/v1/agents").status_code == 200

    assert wrong(client, 429, but=HEALTH_ENDPOINTS | OPEN_ENDPOINTS | {WEBHOOK_ENDPOINT}) == []  # they have no caller


@pytest.mark.parity
def test_every_call_without_a_database_says_when_to_try_again(settings: Settings) -> None:
    away = settings.model_copy(update={"database_url": "sqlite:////nowhere/callboard.db"})

    assert wrong(create_app(away).test_client(), 503, but=frozenset({WEBHOOK_ENDPOINT})) == []  # refused before


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_error_of_such_a_status_says_when_to_try_again(app: Flask, code: str) -> None:
    kind = KINDS[code]
    error = kind("it is so; do that.") if isinstance(kind, ErrorRow) else kind.__new__(kind, "it is so; do that.")
    error.facts = {}

    with app.test_request_context("/v1/runs"):
        answer = of_error(error)

    assert answer.status_code in BUSY
    assert answer.json is not None
    assert answer.json["retryable"] is True
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("status", sorted(BY_STATUS.keys() & {408, *BUSY}))
def test_what_the_server_refuses_by_itself_says_when_to_try_again(status: int) -> None:
    answer = refusal(status)

    assert re.search(rb"\r\nRetry-After: [1-9][0-9]*\r\n", answer)
    assert b'"retryable":true' in answer


@pytest.mark.parametrize("status", [400, 404, 413, 414, 417, 426, 431, 500, 501])
def test_what_fails_again_has_no_time_for_another_try(status: int) -> None:
    answer = refusal(status)

    assert b"Retry-After" not in answer
    assert b'"retryable":false' in answer
