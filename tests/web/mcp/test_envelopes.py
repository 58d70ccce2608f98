"""Signed envelopes over MCP: what is called is what was signed, once, on each era of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from pydantic import SecretStr

from callboard_client import EnvelopeKey
from config.identity.principal import Principal
from tests.web.mcp.conftest import Place

pytestmark = pytest.mark.parity

SECRET = "5d2f0c8a" * 8
KEY = EnvelopeKey(id="main", secret=SECRET)
ARGUMENTS = {"a": 20, "b": 22}


def served(endpoint: Place, *, is_required: bool = True) -> Place:
    """Return the place with a key for envelopes."""
    keys = SecretStr(f"main:{SECRET}")
    return endpoint.with_settings(envelope_keys=keys, require_envelope=is_required, envelope_audience="default")


@pytest.fixture
def strict(place: Place) -> Place:
    """The place, where envelopes are required."""
    return served(place)


def call(endpoint: Place, meta: dict[str, Any] | None, mode: str, name: str = "add", **changed: Any) -> Any:
    async def work(client: Client) -> Any:
        return await client.call_tool(name, {**ARGUMENTS, **changed}, meta=meta)  # type: ignore[arg-type]  # open map

    return endpoint.use(work, mode).structured_content


def is_refused(state: Any) -> bool:
    return (state["status"], state["code"]) == ("refused", "UNAUTHORIZED")


def test_a_signed_call_is_made_once(strict: Place, mode: str) -> None:
    meta = KEY.mcp_meta("add", ARGUMENTS)

    first, again = call(strict, meta, mode), call(strict, meta, mode)

    assert (first["status"], first["output"]) == ("succeeded", {"sum": 42})
    assert is_refused(again)
    assert "used before" in again["error"]


def test_a_call_without_an_envelope_is_refused_only_where_one_is_required(
    place: Place, strict: Place, mode: str
) -> None:
    assert is_refused(call(strict, None, mode))
    assert call(place, None, mode)["status"] == "succeeded"


@pytest.mark.parametrize(
    "changed",
    [{"a": 21}, {"a": 20.0}, {"a": True}, {"a": "20"}, {"c": 1}, {"a": 2**63}, {"a": None}],
    ids=str,
)
def test_other_arguments_than_the_signed_ones_are_refused(
    strict: Place, changed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    assert is_refused(call(strict, KEY.mcp_meta("add", ARGUMENTS), "legacy", **changed))
    assert "an envelope was refused: form" in caplog.text


@pytest.mark.parametrize(
    "meta",
    [
        KEY.mcp_meta("burn", ARGUMENTS),
        KEY.mcp_meta("add", {}),
        KEY.mcp_meta("add", ARGUMENTS) | {"callboard/envelope": ""},
        KEY.mcp_meta("add", ARGUMENTS) | {"callboard/envelope": None},
        KEY.mcp_meta("add", ARGUMENTS) | {"callboard/envelope": ["v1"]},
        KEY.mcp_meta("add", ARGUMENTS) | {"callboard/call": None},
        KEY.mcp_meta("add", ARGUMENTS) | {"callboard/call": {"name": "add", "arguments": ARGUMENTS}},
        KEY.mcp_meta("add", ARGUMENTS) | {"callboard/call": json.dumps({"arguments": ARGUMENTS, "name": "add"})},
        {"callboard/call": json.dumps({"name": "add", "arguments": ARGUMENTS})},
        {"callboard/envelope": KEY.headers("tools/call", b"")["Callboard-Envelope"]},
        {"callboard/envelope": KEY.headers("tools/call", b"{}")["Callboard-Envelope"], "callboard/call": "{}"},
        EnvelopeKey(id="main", secret=SECRET[::-1]).mcp_meta("add", ARGUMENTS),
        EnvelopeKey(id="other", secret=SECRET).mcp_meta("add", ARGUMENTS),
        EnvelopeKey(id="main", secret=SECRET, audience="default/acme").mcp_meta("add", ARGUMENTS),
    ],
    ids=range(14),
)
@pytest.mark.parametrize("is_required", [True, False])
def test_one_that_does_not_sign_this_call_is_refused_also_where_none_is_required(
    place: Place, meta: dict[str, Any], is_required: bool
) -> None:
    assert is_refused(call(served(place, is_required=is_required), meta, "legacy"))


def test_an_envelope_of_http_is_none_of_mcp(strict: Place) -> None:
    text = json.dumps({"name": "add", "arguments": ARGUMENTS})
    envelope = KEY.headers("POST /execute", text.encode())["Callboard-Envelope"]

    assert is_refused(call(strict, {"callboard/envelope": envelope, "callboard/call": text}, "legacy"))


def test_the_tenant_is_that_of_the_caller(strict: Place) -> None:
    theirs = strict.as_principal(Principal(tenant="acme", id="ana"))

    assert is_refused(call(theirs, KEY.mcp_meta("add", ARGUMENTS), "legacy"))


def test_runs_are_looked_at_without_one(strict: Place, mode: str) -> None:
    result = call(strict, KEY.mcp_meta("add", ARGUMENTS), mode)

    state = strict.state("run_status", mode, run_id=result["run_id"])

    assert (state["status"], state["run_id"]) == ("succeeded", result["run_id"])
