"""Administrators read the sealed originals of their tenant's runs, and the audit log has that."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import pytest
from flask.testing import FlaskClient
from pydantic import SecretStr

from config.settings import Settings
from web.app import create_app

pytestmark = pytest.mark.parity  # the web process looks for a running Redis

KEY = "sk-proj-Ab12Cd34Ef56Gh78Ij90"
SEAL = SecretStr(b64encode(b"k" * 32).decode())


def sealing(settings: Settings) -> FlaskClient:
    return create_app(settings.model_copy(update={"seal_keys": SEAL})).test_client()


def started(client: FlaskClient) -> str:
    answer = client.post("/v1/runs", json={"agent": "assistant", "input": f"Use {KEY}"})
    assert answer.json is not None
    return str(answer.json["run_id"])


def unsealed(client: FlaskClient, run_id: str, body: Mapping[str, object]) -> tuple[int, str]:
    answer = client.post(f"/v1/runs/{run_id}/unseal", json=body)
    return answer.status_code, answer.text


def test_the_originals_of_a_run_are_given_with_a_reason_and_that_is_recorded(settings: Settings) -> None:
    client = sealing(settings)
    run_id = started(client)

    answer = client.post(f"/v1/runs/{run_id}/unseal", json={"reason": " a leak "})

    assert answer.json is not None
    assert answer.headers["Cache-Control"] == "no-store"
    assert [(original["what"], original["original"]) for original in answer.json["originals"]] == [
        ("input", f"Use {KEY}")
    ]
    log = client.get("/v1/audit").json
    assert log is not None
    entry = log["entries"][0]
    assert (entry["action"], entry["target_id"], entry["facts"]["reason"]) == ("originals.read", run_id, "a leak")
    assert KEY not in str(entry)


def test_without_a_reason_or_a_run_nothing_is_given(settings: Settings) -> None:
    client = sealing(settings)
    run_id = started(client)

    for body in ({}, {"reason": ""}, {"reason": "  "}, {"reason": "x" * 201}, {"reason": 1}):
        assert unsealed(client, run_id, body)[0] == 400
    assert unsealed(client, "run_00000000000000000000000000", {"reason": "x"})[0] == 404


def test_another_key_does_not_unseal(settings: Settings) -> None:
    run_id = started(sealing(settings))
    other = settings.model_copy(update={"seal_keys": SecretStr(b64encode(b"n" * 32).decode())})

    status, text = unsealed(create_app(other).test_client(), run_id, {"reason": "a leak"})

    assert status == 503
    assert "seal_key_missing" in text
    assert KEY not in text
