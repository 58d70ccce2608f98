"""The spans of a model's call: the requests of all its attempts, stored with its step and listed with the tools'."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.tools.spans.hooks import enable_hooks, remove_hooks
from tests.app_harness import AppHarness
from tests.model_server import Turn

pytestmark = pytest.mark.parity


@pytest.fixture(autouse=True)
def hooks() -> Iterator[None]:
    enable_hooks()
    yield
    remove_hooks()


def spans_of_models(harness: AppHarness, run_id: str) -> list[dict[str, Any]]:
    calls = harness.runner.journal.readers.runs.spans(harness.runner.principal, run_id)
    assert [call["kind"] for call in calls] == ["model"]
    assert "call_id" not in calls[0]
    return list(calls[0]["spans"])


def test_a_models_request_is_a_span_without_its_key(harness: AppHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_MODEL_KEY", "sk-abcdefghijklmnop1234")
    harness.agent("api_key_env: MY_MODEL_KEY")
    harness.model.script([Turn(text="Hello.")])

    handle = harness.run("How are you?")

    assert handle.result(30).output == "Hello."
    (span,) = [model for model in spans_of_models(harness, handle.run_id) if model["kind"] == "http"]
    assert (span["method"], span["status"]) == ("POST", 200)
    assert span["url"].startswith(harness.model.url)
    assert "How are you?" in span["request_body"]
    assert span["request_headers"]["authorization"] == "[redacted]"
    assert "abcdefghijklmnop1234" not in str(span)


def test_each_attempt_is_a_span(harness: AppHarness) -> None:
    harness.model.script([Turn(status=503), Turn(text="Hello.")])

    handle = harness.run()

    assert handle.result(30).output == "Hello."
    statuses = [model["status"] for model in spans_of_models(harness, handle.run_id) if model["kind"] == "http"]
    assert statuses == [503, 200]
