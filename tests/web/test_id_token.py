"""Id tokens and claims: what is not exactly as OpenID Connect and the settings say signs no one in."""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, RSAKey

from config.errors import SettingInvalid
from config.settings import Settings, read_settings
from tests.raising import raises
from web.oidc.errors import SIGN_IN_REFUSED
from web.oidc.provider import claims_of, key_id_of
from web.oidc.sign_in import principal_of

ISSUER, CLIENT, NONCE = "https://login.example.org", "callboard", "n" * 43
KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
PEM = KEY.as_pem(private=False)
PUBLIC = KeySet([RSAKey.import_key(KEY.as_dict(private=False))])
SETTINGS = Settings(_env_file=None, auth="required", oidc_issuer=ISSUER, oidc_client_id=CLIENT)  # type: ignore[call-arg]


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    whole = {"iss": ISSUER, "aud": CLIENT, "sub": "olga", "nonce": NONCE, "iat": now, "exp": now + 300}
    return {name: value for name, value in (whole | changes).items() if value is not None}


def signed(token_claims: dict[str, Any], key: Any = KEY, **header: str) -> dict[str, str]:
    return {"id_token": jwt.encode({"alg": "RS256", "kid": "one"} | header, token_claims, key)}


def by_hand(algorithm: str, sign: Callable[[bytes], bytes]) -> dict[str, str]:
    """Return a token that no library would make."""
    parts = [orjson.dumps(part) for part in ({"alg": algorithm, "kid": "one"}, claims())]
    start = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    return {"id_token": (start + b"." + urlsafe_b64encode(sign(start)).rstrip(b"=")).decode()}


def read(token: dict[str, str], settings: Settings = SETTINGS) -> Any:
    return claims_of(token, PUBLIC, {}, settings, NONCE)


def test_a_token_that_is_right_is_read() -> None:
    token = signed(claims())

    assert read(token)["sub"] == "olga"
    assert key_id_of(token) == "one"
    assert read(signed(claims(aud=[CLIENT, "other"], azp=CLIENT)))["sub"] == "olga"


NOW = int(time.time())
WRONG: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://login.example.com"},
    "no issuer": {"iss": None},
    "another audience": {"aud": "another"},
    "no audience": {"aud": None},
    "an empty audience": {"aud": []},
    "another party": {"aud": [CLIENT, "other"], "azp": "other"},
    "several audiences and no party": {"aud": [CLIENT, "other"]},
    "no person": {"sub": None},
    "expired": {"exp": NOW - 3600},
    "no end": {"exp": None},
    "of the future": {"iat": NOW + 3600, "nbf": NOW + 3600},
    "another nonce": {"nonce": "m" * 43},
    "no nonce": {"nonce": None},
}


@pytest.mark.parametrize("changes", list(WRONG.values()), ids=list(WRONG))
def test_a_token_with_a_wrong_claim_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(JoseError):
        read(signed(claims(**changes)))


FORGED: dict[str, dict[str, str]] = {
    "of another key": signed(claims(), OTHER),
    "without a signature": by_hand("none", lambda start: b""),
    "with the public key as a secret": by_hand("HS256", lambda start: hmac.digest(PEM, start, "sha256")),
    "of an unknown key": signed(claims(), OTHER, kid="two"),
    "cut": {"id_token": signed(claims())["id_token"][:-4]},
    "no token": {"id_token": "a.b.c"},
}


@pytest.mark.parametrize("token", list(FORGED.values()), ids=list(FORGED))
def test_a_forged_token_is_refused(token: dict[str, str]) -> None:
    with pytest.raises((JoseError, ValueError)):
        read(token)


def test_an_answer_without_an_id_token_is_refused() -> None:
    with raises(SIGN_IN_REFUSED):
        key_id_of({"access_token": "a"})


def principal(token_claims: dict[str, Any], **settings: Any) -> Any:
    return principal_of(token_claims, SETTINGS.model_copy(update=settings))


def test_a_sub_that_is_no_name_is_hashed_and_none_can_be_chosen_to_be_like_it() -> None:
    derived = principal({"sub": "auth0|123"}).id

    assert derived.startswith("sub-")
    assert principal({"sub": "auth0|123"}).id == derived
    assert principal({"sub": derived}).id != derived
    assert principal({"sub": "../../etc"}).id != principal({"sub": "../../etd"}).id


@pytest.mark.parametrize("address", ["olga@example.org/..", "", "a b@example.org", "x" * 65, None, ["olga"], 7])
def test_other_claims_have_to_be_names(address: Any) -> None:
    token_claims = {"sub": "1", "email": address, "email_verified": True}
    with raises(SIGN_IN_REFUSED):
        principal(token_claims, oidc_principal_claim="email")


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_the_provider_did_not_verify_names_no_one(verified: Any) -> None:
    with raises(SIGN_IN_REFUSED):
        principal({"sub": "1", "email": "a@b.org", "email_verified": verified}, oidc_principal_claim="email")


@pytest.mark.parametrize(
    ("token_claims", "roles"),
    [
        ({"realm": {"roles": ["ops", "x"]}}, ["operator"]),
        ({"realm.roles": ["admins"]}, ["admin"]),
        ({"realm": {"roles": "ops"}}, ["operator"]),
        ({"realm": {"roles": "site ops"}}, []),
        ({"realm": {"roles": ["emperor", "operator", "admin", "*", "OPS", ""]}}, []),
        ({"realm": {"roles": {"ops": True}}}, []),
        ({"realm": "ops"}, []),
        ({"realm": {"roles": [["ops"], None, "admin"]}}, []),
        ({}, []),
    ],
)
def test_roles_come_from_mapped_groups_only(token_claims: dict[str, Any], roles: list[str]) -> None:
    signed_in = principal(
        {"sub": "1", **token_claims}, oidc_roles_claim="realm.roles", oidc_roles="ops=operator,admins=admin"
    )

    assert sorted(signed_in.roles) == roles


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("OIDC_ROLES", "ops=operater", "operator"),
        ("OIDC_ROLES", "ops", "role"),
        ("OIDC_ISSUER", "http://login.example.org", "https"),
        ("OIDC_ISSUER", "javascript:alert(1)", "https"),
        ("OIDC_CLIENT_ID", "", "CLIENT_ID"),
        ("AUTH", "none", "required"),
    ],
)
def test_settings_that_do_not_fit_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, word: str
) -> None:
    named = {"AUTH": "required", "OIDC_ISSUER": ISSUER, "OIDC_CLIENT_ID": CLIENT, "OIDC_CLIENT_SECRET": "hush-hush"}
    for name, text in (named | {variable: value}).items():
        monkeypatch.setenv(f"CALLBOARD_{name}", text)

    with pytest.raises(SettingInvalid, match=word) as refused:
        read_settings()

    assert "hush-hush" not in str(refused.value)
