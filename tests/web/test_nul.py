"""The character NUL is a client's mistake at every door and in every place, whatever the database."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from flask import Flask

from config.database.migrate import migrate
from config.settings import Settings
from tests.web.conftest import accept, opened, process_of
from web.app import create_app

FIELDS = "agent input thread_id metadata title message correlation_id config decision result".split()
PARAMETERS = (
    "status",
    "agent",
    "thread_id",
    "search",
    "before",
    "after",
    "limit",
    "why",
    "last_event_id",
    "wait_s",
    "v",
)
CURSORS = [base64.urlsafe_b64encode(orjson.dumps([1, text])).decode().rstrip("=") for text in ("a\0b", "\0", "run_1\0")]
"""Places in a list as the server encodes them, with NUL inside."""
LISTS = ("/v1/runs", "/v1/threads")
HEADERS = ("Idempotency-Key", "Last-Event-ID", "Accept", "Origin", "X-Other")


@pytest.fixture(scope="module")
def app(
    database_kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flask]:
    folder = tmp_path_factory.mktemp("nul")
    url = f"sqlite:///{folder}/nul.db"
    if database_kind == "postgres":
        url = request.getfixturevalue("postgres_cluster").new_database()
    (folder / "agents").mkdir()
    (folder / "agents" / "assistant.yaml").write_text("name: A\nmodel: demo/assistant\nsystem_prompt: You answer.\n")
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=folder,
        database_url=url,
        agents_dir=str(folder / "agents"),
        default_agent="assistant",
    )
    migrate(settings)
    with opened(settings) as runner:
        accept(runner, thread_id="thr")
        flask_app = create_app(settings, runner)
        yield flask_app
        process_of(flask_app).close()


def ways(app: Flask) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a request for each method, rule and place of each route, with NUL in that place."""
    for rule in app.url_map.iter_rules():
        plain = re.sub(r"<[^>]+>", "x", rule.rule)
        for method in sorted(rule.methods or ()):
            for hole in re.findall(r"<[^>]+>", rule.rule):
                yield method, re.sub(r"<[^>]+>", "x", rule.rule.replace(hole, "a%00b")), {}
            yield method, plain + "%00", {}
            for name in PARAMETERS:
                yield method, f"{plain}?{name}=a%00b", {}
            if plain in LISTS and method == "GET":
                yield from ((method, f"{plain}?before={encoded}", {}) for encoded in CURSORS)
            yield method, f"{plain}?a%00b=1", {}
            for name in HEADERS:
                yield method, plain, {"headers": {name: "a\0b"}}
            if method == "POST":
                yield from ((method, plain, {"data": body}) for body in bodies())


def bodies() -> Iterator[bytes]:
    good = {"agent": "assistant", "input": "Hi", "thread_id": "thr", "message": "Hi", "decision": "fail"}
    for name in FIELDS:
        for value in ("a\0b", {"k": "a\0b"}, {"a\0b": 1}, ["a\0b"]):
            yield orjson.dumps({**good, name: value})
    yield orjson.dumps({**good, "a\0b": 1})


@pytest.mark.parity
def test_nul_is_refused_at_every_door_and_in_every_place(app: Flask) -> None:
    client, request_count, error = app.test_client(), 0, []
    for method, path, options in ways(app):
        options = {"content_type": "application/json", **options} if "data" in options else options
        answer = client.open(path, method=method, **options)
        request_count += 1
        if answer.status_code not in (400, 401, 403, 404, 405):  # 401: a webhook without a signature
            error.append((method, path, options, answer.status_code))
        answer.close()

    assert request_count > 500
    assert not error


@pytest.mark.parametrize("path", ["/v1/runs/a%00b", "/v1/threads/a%00b", "/v1/agents/a%00b", "/v1/runs?agent=%00"])
def test_nul_is_400(app: Flask, path: str) -> None:
    answer: Any = app.test_client().get(path)

    assert (answer.status_code, answer.json["code"]) == (400, "bad_request")
