"""Webhooks over HTTP: what is verified starts one run a delivery, and what is not starts none and says nothing."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event, func, select, update

from agents.runner import Runner
from bus.identity.principals import disable
from config.database.migrate import migrate
from config.database.tables import audit, controls, idempotency_keys, messages, runs, threads
from config.definitions.webhooks.signatures import key_of, sign
from config.identity.principal import Principal
from config.settings import Settings
from tests.web.conftest import AGENT, opened, process_of
from tests.web.contract import require_no_difference, watch
from web.app import create_app

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEXT = "whsec_dGhlIG5leHQga2V5IG9mIHRoZSBzYW1lIHNob3A="
KEY = key_of("standard", SECRET)
WORKFLOW = """\
name: Shipping
input: {type: object, properties: {order: {type: string}, total: {type: number}}, required: [order]}
nodes:
  - {id: start, type: START}
  - {id: paid, type: WAIT, config: {signal: paid}}
  - {id: end, type: END}
edges: [{source: start, target: paid}, {source: paid, target: end}]
"""
FILES = {
    "shop": """\
        format: standard
        secret: ["${SHOP_SECRET}", "${SHOP_NEXT_SECRET}"]
        tenant: acme
        start: {agent: assistant, input: "Order {{ body.data.id }}: {{ body.data.note }}"}
        thread: "order-{{ body.data.id }}"
        only: event == 'order.paid'
        """,
    "shipping": """\
        format: stripe
        secret: ${STRIPE_SECRET}
        tenant: acme
        principal: shop
        start: {workflow: shipping, input: {order: "{{ body.data.object.id }}", total: "{{ body.data.object.amount }}"}}
        """,
    "paid": """\
        format: github
        secret: ${GITHUB_SECRET}
        tenant: acme
        principal: shop
        signal: {run: "{{ body.run }}", name: paid, data: {cents: "{{ body.cents }}", by: "{{ event }}"}}
        """,
    "lost": "format: github\nsecret: ${GITHUB_SECRET}\nstart: {agent: not-there, input: '{{ body }}'}\n",
    "keyless": "format: github\nsecret: ${UNSET_SECRET}\nstart: {agent: assistant, input: x}\n",
    "broken": "format: none\n",
}
SECRETS = {
    "SHOP_SECRET": SECRET,
    "SHOP_NEXT_SECRET": NEXT,
    "STRIPE_SECRET": "whsec_stripe",
    "GITHUB_SECRET": "github key",
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return furnished(settings, tmp_path)


def furnished(settings: Settings, folder: Path, **more: Any) -> Settings:
    (folder / "agents").mkdir(exist_ok=True)
    (folder / "agents" / "assistant.yaml").write_text(AGENT)
    (folder / "agents" / "shipping.yaml").write_text(WORKFLOW)
    (folder / "webhooks").mkdir()
    for name, text in FILES.items():
        lines = text.splitlines(keepends=True)
        indent = len(lines[0]) - len(lines[0].lstrip())
        (folder / "webhooks" / f"{name}.yaml").write_text("".join(line[indent:] for line in lines))
    chosen = {"webhooks_dir": str(folder / "webhooks"), "auth": "required", "agents_dir": str(folder / "agents")}
    return settings.model_copy(update=chosen | more)


def order(number: str = "17", note: str = "two chairs", event_type: str = "order.paid") -> bytes:
    return json.dumps({"type": event_type, "data": {"id": number, "note": note}}).encode()


def deliver(
    client: FlaskClient,
    body: bytes,
    delivery_id: str = "msg_1",
    *,
    name: str = "shop",
    key: bytes = KEY,
    age_s: int = 0,
    signed: bytes | None = None,
    **headers: str,
) -> Any:
    """Send a delivery of Standard Webhooks; ``signed``: the bytes that the signature is of, where they differ."""
    at_s = int(time.time()) - age_s
    signature = sign(key, delivery_id, at_s, body if signed is None else signed)
    of_standard = {"webhook-id": delivery_id, "webhook-timestamp": str(at_s), "webhook-signature": signature}
    return post(client, name, body, of_standard | {name.replace("_", "-"): value for name, value in headers.items()})


def post(client: FlaskClient, name: str, body: bytes, headers: dict[str, str]) -> Any:
    return client.post(f"/v1/webhooks/{name}", data=body, headers={"Content-Type": "application/json"} | headers)


def of_github(body: bytes, delivery_id: str = "72d3162e", kind: str = "push") -> dict[str, str]:
    digest = hmac.new(b"github key", body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": delivery_id, "X-GitHub-Event": kind}


def of_stripe(body: bytes, age_s: int = 0) -> dict[str, str]:
    at_s = int(time.time()) - age_s
    digest = hmac.new(b"whsec_stripe", f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={at_s},v1={digest}"}


def rows(runner: Runner, *columns: Any) -> list[Any]:
    with runner.journal.database.read() as connection:
        return list(connection.execute(select(*columns)).all())


def test_a_delivery_starts_one_run_and_its_repetition_finds_it(client: FlaskClient, runner: Runner) -> None:
    first = deliver(client, order())
    second = deliver(client, order(), age_s=20)

    assert (first.status_code, first.json["outcome"]) == (202, "started")
    assert (second.status_code, second.json) == (200, {"outcome": "repeated", "run_id": first.json["run_id"]})
    [run] = rows(runner, runs)
    assert (run.tenant, run.principal, run.credential, run.credential_id) == ("acme", "shop", "webhook", "shop")
    assert (run.thread_id, run.agent_id, run.detached) == ("order-17", "assistant", True)
    assert json.loads(run.metadata_json) == {"webhook": "shop", "delivery": "msg_1", "event": "order.paid"}
    [message] = rows(runner, messages.c.data_json)
    assert json.loads(message[0])["content"] == "Order 17: two chairs"


def test_another_delivery_starts_another_run_and_the_webhooks_have_ids_of_their_own(
    client: FlaskClient, runner: Runner
) -> None:
    assert deliver(client, order()).status_code == 202
    assert deliver(client, order(), "msg_2").status_code == 202
    body = b'{"run": "run_00000000000000000000000000", "cents": 1}'

    assert post(client, "paid", body, of_github(body, "msg_1")).status_code == 404  # no run, and no earlier delivery
    assert len(rows(runner, runs.c.id)) == 2


@pytest.mark.parametrize(
    "headers",
    [{}, {"webhook_id": ""}, {"webhook_timestamp": "soon"}, {"webhook_signature": "v1,bm9uZQ=="}, {"webhook_id": "m"}],
)
def test_a_forged_delivery_starts_nothing(headers: dict[str, Any], client: FlaskClient, runner: Runner) -> None:
    forged = deliver(client, order(), key=b"another key", **headers)

    assert forged.status_code == 401
    assert rows(runner, runs.c.id) == []


def alike(answer: Any) -> tuple[int, dict[str, Any], list[str]]:
    body = {name: value for name, value in answer.json.items() if name != "trace_id"}
    return answer.status_code, body, sorted(answer.headers.keys())


def test_whatever_cannot_be_verified_is_refused_alike(client: FlaskClient) -> None:
    body = order()
    refusals = [
        deliver(client, body, name="no-such-webhook"),
        deliver(client, body, name="..shop"),
        deliver(client, body, key=b"another key"),
        deliver(client, body, signed=body + b" "),
        deliver(client, body, age_s=301),
        deliver(client, body, age_s=-301),
        post(client, "shop", body, {}),
        post(client, "shop", body, {"Authorization": "Bearer cbk_none"}),
        post(client, "paid", body, {"X-Hub-Signature-256": "sha256=00"}),
        post(client, "shipping", body, of_stripe(body, age_s=301)),
        post(client, "shop", b"no json", {}),
    ]

    assert {answer.json["code"] for answer in refusals} == {"webhook_refused"}
    assert all(alike(answer) == alike(refusals[0]) for answer in refusals)


def test_the_log_says_why_and_the_audit_log_counts(
    client: FlaskClient, app: Flask, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    deliver(client, order(), age_s=400)
    process_of(app).close()

    assert re.search(r"its timestamp is 40\d s old", caplog.text)
    [refused] = [entry for entry in rows(runner, audit) if entry.action == "access"]
    assert "webhook_refused" in str(refused)


def test_an_unverified_flood_asks_the_database_nothing(client: FlaskClient, runner: Runner) -> None:
    deliver(client, order(event_type="order.made"))  # what the first request opens is open
    queries: list[int] = []
    engine = runner.journal.database.engine
    event.listen(engine, "before_cursor_execute", lambda *_: queries.append(threading.get_ident()))
    for number in range(20):
        deliver(client, order(), f"msg_{number}", key=b"another key")

    assert threading.get_ident() not in queries  # threads write a sum of the refusals, and look for work


def test_both_secrets_are_valid_while_they_are_rotated(client: FlaskClient) -> None:
    assert deliver(client, order(), "msg_1", key=key_of("standard", NEXT)).status_code == 202
    assert deliver(client, order(), "msg_1").status_code == 200


def test_a_delivery_that_the_condition_leaves_out_is_taken_and_starts_nothing(
    client: FlaskClient, runner: Runner
) -> None:
    answer = deliver(client, order(event_type="order.made"))

    assert (answer.status_code, answer.json) == (200, {"outcome": "ignored"})
    assert rows(runner, runs.c.id) == rows(runner, idempotency_keys.c.key) == []


def test_a_ping_of_github_is_answered(client: FlaskClient) -> None:
    body = b'{"zen": "Keep it logically awesome."}'

    assert post(client, "paid", body, of_github(body, kind="ping")).json == {"outcome": "ignored"}


def test_the_run_its_thread_and_a_fork_are_untrusted_from_the_start(client: FlaskClient, runner: Runner) -> None:
    who = Principal(tenant="acme", id="shop")
    runner.run("Hello", "assistant", principal=who, thread_id="order-17")
    with runner.journal.database.write() as connection:
        connection.execute(update(threads).values(labels_json='["sensitive"]'))

    deliver(client, order())
    deliver(client, order("18"), "msg_2")

    assert rows(runner, runs.c.labels_json) == [(None,), ('["untrusted"]',), ('["untrusted"]',)]
    assert rows(runner, threads.c.labels_json) == [('["sensitive","untrusted"]',), ('["untrusted"]',)]


def test_stripe_starts_a_workflow_and_its_next_attempt_may_have_another_body(
    client: FlaskClient, runner: Runner
) -> None:
    def charge(pending: int) -> bytes:
        event_data = {"object": {"id": "ch_1", "amount": 4900}}
        return json.dumps({"id": "evt_1", "pending_webhooks": pending, "data": event_data}).encode()

    first = post(client, "shipping", charge(2), of_stripe(charge(2)))
    second = post(client, "shipping", charge(1), of_stripe(charge(1)))

    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json["run_id"] == second.json["run_id"]
    [message] = rows(runner, messages.c.data_json)
    assert json.loads(message[0])["input"] == {"order": "ch_1", "total": 4900}


def test_github_gives_a_signal_once_with_its_label(client: FlaskClient, runner: Runner) -> None:
    who = Principal(tenant="acme", id="shop")
    run_id = runner.run_workflow("shipping", {"order": "7"}, principal=who, detached=True).run_id
    body = json.dumps({"run": run_id, "cents": 4900}).encode()

    first, second = (post(client, "paid", body, of_github(body, kind="deployment")) for _ in range(2))
    other = post(client, "paid", body, of_github(body, "another"))

    assert (
        (first.status_code, first.json)
        == (second.status_code, second.json)
        == (
            202,
            {"outcome": "signalled", "run_id": run_id},
        )
    )
    assert (other.status_code, other.json["code"]) == (409, "control_refused")
    [control] = rows(runner, controls.c.data_json)
    assert json.loads(control[0]) == {
        "name": "paid",
        "data": {"cents": 4900, "by": "deployment"},
        "labels": ["untrusted"],
    }


def test_a_signal_reaches_the_runs_of_its_principal_alone(client: FlaskClient, runner: Runner) -> None:
    other = Principal(tenant="acme", id="ana")
    run_id = runner.run_workflow("shipping", {"order": "7"}, principal=other, detached=True).run_id
    body = json.dumps({"run": run_id, "cents": 4900}).encode()

    assert post(client, "paid", body, of_github(body)).json["code"] == "run_unknown"


VERIFIED = {
    b"": "bad_request",
    b"[1]": "bad_request",
    b"no json": "bad_request",
    b'{"a": 1, "a": 2}': "bad_request",
    b'{"a": "\\u0000"}': "bad_request",
    b"[" * 5000: "bad_request",
    b'{"type": "order.paid", "data": {"id": 3}}': "webhook_unfit",
    b'{"type": "order.paid", "data": {"id": "' + b"x" * 200 + b'", "note": ""}}': "bad_request",
    b'{"type": "order.paid", "data": {"id": 3, "note": "' + b"y" * 300_000 + b'"}}': "input_too_large",
}


@pytest.mark.parametrize("body", VERIFIED, ids=range(len(VERIFIED)))
def test_what_is_verified_and_cannot_be_used_is_refused_with_its_reason(
    body: bytes, client: FlaskClient, runner: Runner
) -> None:
    answer = deliver(client, body)

    assert answer.json["code"] == VERIFIED[body], answer.json
    assert rows(runner, runs.c.id) == []


def test_what_makes_no_input_names_what_is_missing(client: FlaskClient) -> None:
    answer = deliver(client, b'{"type": "order.paid", "data": {"id": 3}}')

    assert answer.status_code == 422
    assert "body.data.note" in answer.json["detail"]


def test_an_oversized_delivery_is_refused_before_it_is_hashed(client: FlaskClient) -> None:
    assert deliver(client, b" " * (2 * 1024 * 1024 + 1), key=b"another key").status_code == 413


def test_a_form_is_refused_with_the_remedy(client: FlaskClient) -> None:
    assert deliver(client, b"payload={}", Content_Type="application/x-www-form-urlencoded").status_code == 415


def test_text_of_a_sender_stays_text(client: FlaskClient, runner: Runner) -> None:
    deliver(client, order(note="{{ headers }} {% if true %}"))

    [message] = rows(runner, messages.c.data_json)
    assert json.loads(message[0])["content"] == "Order 17: {{ headers }} {% if true %}"


def test_an_agent_that_is_not_there_is_an_error_for_verified_senders_alone(client: FlaskClient) -> None:
    assert post(client, "lost", b"{}", of_github(b"{}")).json["code"] == "agent_unknown"
    assert post(client, "lost", b"{}", of_github(b" {}")).json["code"] == "webhook_refused"


@pytest.mark.parametrize("name", ["broken", "keyless"])
def test_a_webhook_that_cannot_be_used_says_so_in_the_log_and_leaves_the_others(
    name: str, client: FlaskClient, settings: Settings, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    create_app(settings, runner)  # a process that starts

    assert name in caplog.text
    assert "secret: env:UNSET_SECRET is missing or empty for the web process; set it." in caplog.text
    answer = post(client, name, b"{}", of_github(b"{}"))
    assert (answer.status_code, answer.json["code"]) == (503, "webhook_unusable")
    assert "UNSET" not in answer.text
    assert deliver(client, order()).status_code == 202


def test_a_file_that_is_mended_serves_at_once(client: FlaskClient, tmp_path: Path) -> None:
    path = tmp_path / "webhooks" / "broken.yaml"
    assert post(client, "broken", b"{}", of_github(b"{}")).status_code == 503

    path.write_text("format: github\nsecret: ${GITHUB_SECRET}\nstart: {agent: assistant, input: Hello}\n")

    assert post(client, "broken", b"{}", of_github(b"{}")).status_code == 202


def test_a_disabled_principal_takes_its_webhook_along(client: FlaskClient, runner: Runner) -> None:
    with runner.journal.database.write() as connection:
        disable(connection, "acme", "shop", by="root")

    assert deliver(client, order()).json["code"] == "webhook_refused"


def test_a_verified_sender_has_the_limits_of_its_principal(settings: Settings, runner: Runner) -> None:
    limited = settings.model_copy(update={"principal_requests_per_minute": 2})
    app = create_app(limited, runner)
    client = app.test_client()

    statuses = [deliver(client, order(), f"msg_{number}").status_code for number in range(3)]
    process_of(app).close()

    assert statuses == [202, 202, 429]


@pytest.fixture
def each_app(usual_settings: Settings, each_database_url: str, tmp_path: Path) -> Iterator[tuple[Flask, Runner]]:
    bare = usual_settings.model_copy(update={"state_dir": tmp_path / "state", "database_url": each_database_url})
    chosen = furnished(bare, tmp_path, lease_s=60.0, reap_s=5.0)
    migrate(chosen)
    with opened(chosen) as runner:
        app = create_app(chosen, runner)
        watch(app)
        yield app, runner
        process_of(app).close()
        require_no_difference(app)


@pytest.mark.parity
def test_fifty_deliveries_at_once_start_one_run(each_app: tuple[Flask, Runner]) -> None:
    app, runner = each_app
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: deliver(app.test_client(), order()), range(50)))

    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    assert len({answer.json["run_id"] for answer in answers}) == 1
    with runner.journal.database.read() as connection:
        tables = (runs, messages, threads)
        counts = [connection.execute(select(func.count()).select_from(table)).scalar() for table in tables]
    assert counts == [1, 1, 1]
