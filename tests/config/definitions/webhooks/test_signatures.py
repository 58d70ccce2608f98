"""Signatures of webhooks beside the reference library, and beside what GitHub and Stripe have published."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from config.definitions.webhooks.signatures import TOLERANCE_S, key_of, problem_of, sign

LONG = "whsec_b3RoZXIgc2VjcmV0IG9mIHRoZSBzYW1lIHNob3A"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY, OTHER = key_of("standard", SECRET), b"another key of thirty-two bytes!"
BODY = '{"type": "order.paid", "data": {"id": "ö 17"}}'.encode()
NOW = 1_700_000_000
GITHUB = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
"""Of "Hello, World!" with the key below, as docs.github.com has it."""
GITHUB_KEY = b"It's a Secret to %b" % b"".join((b"Every", b"body"))
STRIPE_AT = 1533204620
STRIPE_V1 = "f0bdba6d4eacbd8ad8a3bbadd7248e633ec1477f7899c124c51b39405fa36613"
STRIPE = {"stripe-signature": f"t={STRIPE_AT},v0=63f3,v1={STRIPE_V1}"}
"""Of the event that Stripe's own libraries are tested with, and the secret "webhook_secret"."""
STRIPE_BODY = b"""{
  "id": "evt_123",
  "object": "event",
  "account": "acct_123",
  "api_version": "2017-05-25",
  "created": 1533204620,
  "data": {
    "object": {
      "id": "ii_123",
      "object": "invoiceitem",
      "amount": 1000,
      "currency": "usd",
      "customer": "cus_123",
      "date": 1533204620,
      "description": "Test Invoice Item",
      "discountable": false,
      "invoice": "in_123",
      "livemode": false,
      "metadata": {},
      "period": {
        "start": 1533204620,
        "end": 1533204620
      },
      "plan": null,
      "proration": false,
      "quantity": null,
      "subscription": null
    }
  },
  "livemode": false,
  "pending_webhooks": 1,
  "request": {
    "id": "req_123",
    "idempotency_key": "idempotency-key-123"
  },
  "type": "invoiceitem.created"
}
"""


def standard(signature: str, at: object = NOW, delivery_id: str = "msg_1") -> dict[str, str]:
    return {"webhook-id": delivery_id, "webhook-timestamp": str(at), "webhook-signature": signature}


@given(body=st.text(st.characters(exclude_categories=["Cs"]), max_size=50), key=st.binary(min_size=1, max_size=64))
def test_a_signature_is_that_of_the_reference_library(body, key):
    reference = Webhook(f"whsec_{base64.b64encode(key).decode()}")

    ours = sign(key, "msg_1", NOW, body.encode())

    assert ours == reference.sign("msg_1", datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None), body)
    assert problem_of("standard", standard(ours), body.encode(), [key], NOW) is None


def test_the_reference_library_accepts_what_is_signed_here():
    now_s = int(datetime.now(UTC).timestamp())

    data = Webhook(SECRET).verify(BODY, standard(sign(KEY, "msg_1", now_s, BODY), now_s))

    assert data["type"] == "order.paid"


@pytest.mark.parametrize("secret", [SECRET, SECRET.removeprefix("whsec_"), LONG, f"{LONG}="])
def test_a_secret_stands_for_the_key_that_the_reference_library_reads(secret):
    reference = Webhook(secret).sign("m", datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None), "{}")

    assert sign(key_of("standard", secret), "m", NOW, b"{}") == reference


@pytest.mark.parametrize("secret", ["whsec_", "", "whsec_no base64", "whsec_ö", "abc", "whsec_QQ==", "whsec_c2hvcnQ="])
def test_what_is_no_secret_is_refused_without_being_repeated(secret):
    with pytest.raises(ValueError, match=r"(is no secret of Standard Webhooks|has fewer than 24 bytes)") as refused:
        key_of("standard", secret)

    assert "ö" not in str(refused.value)
    assert "no base64" not in str(refused.value)


def test_the_published_signatures_are_accepted():
    assert problem_of("github", GITHUB, b"Hello, World!", [GITHUB_KEY], NOW) is None
    assert problem_of("stripe", STRIPE, STRIPE_BODY, [key_of("stripe", "webhook_secret")], STRIPE_AT + 100) is None


CASES = {
    "standard": (standard(sign(KEY, "msg_1", NOW, BODY)), BODY, KEY, NOW),
    "github": (GITHUB, b"Hello, World!", GITHUB_KEY, NOW),
    "stripe": (STRIPE, STRIPE_BODY, b"webhook_secret", STRIPE_AT),
}


@pytest.mark.parametrize("format_", CASES)
def test_any_of_several_secrets_may_have_signed(format_):
    headers, body, key, now_s = CASES[format_]

    assert problem_of(format_, headers, body, [OTHER, key], now_s) is None
    assert problem_of(format_, headers, body, [key, OTHER], now_s) is None
    assert problem_of(format_, headers, body, [OTHER], now_s) is not None


@pytest.mark.parametrize("format_", CASES)
def test_a_forged_delivery_is_refused(format_):
    headers, body, key, now_s = CASES[format_]
    (name,) = (name for name in headers if "signature" in name)

    for forged in (
        {**headers, name: headers[name][:-1] + ("0" if headers[name][-1] != "0" else "1")},
        {**headers, name: ""},
        {**headers, name: "v1,=,t=,v1=,sha256="},
        {**headers, name: headers[name].encode().decode("latin-1") + "\udcff"},
        {},
    ):
        assert problem_of(format_, forged, body, [key], now_s) is not None, forged
    assert problem_of(format_, headers, body + b" ", [key], now_s) is not None


def test_the_id_and_the_time_are_signed_too():
    headers = standard(sign(KEY, "msg_1", NOW, BODY))

    assert problem_of("standard", headers | {"webhook-id": "msg_2"}, BODY, [KEY], NOW) is not None
    assert problem_of("standard", headers | {"webhook-timestamp": str(NOW + 1)}, BODY, [KEY], NOW) is not None


def test_one_of_several_signatures_is_enough():
    both = f"v1a,bm9uZQ== {sign(OTHER, 'msg_1', NOW, BODY)} {sign(KEY, 'msg_1', NOW, BODY)}"

    assert problem_of("standard", standard(both), BODY, [KEY], NOW) is None


@pytest.mark.parametrize("format_", ["standard", "stripe"])
@pytest.mark.parametrize("direction", [1, -1])
def test_an_old_delivery_is_refused_and_one_of_the_future(format_, direction):
    headers, body, key, now_s = CASES[format_]

    assert problem_of(format_, headers, body, [key], now_s + direction * TOLERANCE_S) is None
    assert "301 s" in str(problem_of(format_, headers, body, [key], now_s + direction * (TOLERANCE_S + 1)))


@pytest.mark.parametrize("at", ["", "now", "1e9", "-1", "1" * 400, "１"])
def test_a_time_that_is_no_number_is_refused(at):
    headers = {"webhook-id": "m", "webhook-timestamp": at, "webhook-signature": sign(KEY, "m", at, BODY)}

    assert problem_of("standard", headers, BODY, [KEY], NOW) == "its timestamp is no number of seconds"
