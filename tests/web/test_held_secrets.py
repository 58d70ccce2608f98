"""A secret of the workers that a client sends is not stored, although the web process does not have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config import redaction
from config.redaction.provider_keys import without_keys
from config.redaction.redactor import DIGESTS_HELD, REDACTED

SECRET = "Zq8vT1mKx4Lw9RbN"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The digests that `up` gives its web process."""
    monkeypatch.setenv(DIGESTS_HELD, without_keys({"MISTRAL_API_KEY": SECRET})[DIGESTS_HELD])
    redaction.forget()
    yield
    monkeypatch.undo()
    redaction.forget()


@pytest.mark.usefixtures("held")
def test_a_secret_of_the_workers_is_neither_stored_nor_shown(client, journal) -> None:
    body = {"agent": "assistant", "input": f"My key is {SECRET}, use it.", "thread_id": "mine"}
    started = client.post("/v1/runs", json=body)

    messages = client.get("/v1/threads/mine/messages")
    named = client.post("/v1/threads", json={"thread_id": SECRET})

    assert started.status_code == 202
    assert f"My key is {REDACTED}, use it." in messages.get_data(as_text=True)
    with journal.database.engine.connect() as connection:
        stored = "\n".join(connection.connection.driver_connection.iterdump())
    assert SECRET not in stored
    assert REDACTED in stored
    assert named.status_code == 400
