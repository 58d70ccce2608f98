"""Which of a login's tokens are redacted, as they are renewed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from agents.tools.mcp.oauth.account import KEPT, MAX_KEPT, OAuthAccount, place_of, redact_issued
from config.clock import epoch_ms
from config.redaction import REDACTED, own_redactor, redact, register_secrets, set_secrets

HOUR_MS = 3_600_000


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """A tenant's place that no other test has."""
    own = place_of(request.node.name, "shop")
    yield own
    set_secrets(own, ())


def token(number: int) -> str:
    return f"access token {number:06}"


def issue(place: str, number: int, *, expires_ms: int | None, now_ms: int, more: str = "") -> None:
    redact_issued(place, token(number), frozenset(filter(None, (token(number), more))), expires_ms, now_ms)


def redacted(last: int) -> list[int]:
    return [number for number in range(last + 1) if redact(token(number)) == REDACTED]


def test_a_thousand_renewals_leave_the_last_two_tokens(place: str) -> None:
    before = len(own_redactor().values)
    client = OAuthClientInformationFull(client_id="us", client_secret="the client's own secret", redirect_uris=None)

    for number in range(1000):
        tokens = OAuthToken(access_token=token(number), refresh_token=f"refresh token {number:06}")
        OAuthAccount(tokens=tokens, client=client, expires_ms=epoch_ms() - 1).register(place)

    assert redacted(999) == [998, 999]
    assert redact("refresh token 000999, the client's own secret") == f"{REDACTED}, {REDACTED}"
    assert len(own_redactor().values) - before <= 4 * (2 * KEPT + 1)  # a value has some spellings


def test_a_token_is_redacted_as_long_as_it_is_valid(place: str) -> None:
    for number in range(4):
        issue(place, number, expires_ms=HOUR_MS + number, now_ms=0)
    assert redacted(3) == [0, 1, 2, 3]

    issue(place, 4, expires_ms=2 * HOUR_MS, now_ms=HOUR_MS + 1)  # the first two have expired

    assert redacted(4) == [2, 3, 4]


@pytest.mark.parametrize("expires_ms", [None, HOUR_MS], ids=["unknown", "later"])
def test_tokens_that_stay_valid_are_bounded_too(place: str, expires_ms: int | None) -> None:
    for number in range(1000):
        issue(place, number, expires_ms=expires_ms, now_ms=0)

    assert redacted(999) == list(range(1000 - MAX_KEPT, 1000))


def test_the_same_token_again_puts_no_other_one_out(place: str) -> None:
    issue(place, 0, expires_ms=1, now_ms=2)
    issue(place, 1, expires_ms=1, now_ms=2)
    issue(place, 1, expires_ms=1, now_ms=2, more="the client's own secret")

    assert redacted(1) == [0, 1]
    assert redact("the client's own secret") == REDACTED


def test_a_token_of_two_logins_and_one_of_a_setting_stay(place: str) -> None:
    other = f"{place} of another tenant"
    register_secrets(["a token of a setting"])
    issue(place, 0, expires_ms=1, now_ms=2, more="a token of a setting")
    issue(place, 1, expires_ms=1, now_ms=2)
    issue(other, 1, expires_ms=1, now_ms=2)

    for number in range(2, 10):
        issue(place, number, expires_ms=1, now_ms=2)

    assert redacted(9) == [1, 8, 9]
    assert redact("a token of a setting") == REDACTED
    set_secrets(other, ())
    assert redacted(9) == [8, 9]
