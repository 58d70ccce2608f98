"""The tests' own OpenID Connect provider does what sign-in relies on."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.httpx_client import OAuth2Client

from tests.identity_provider.provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, pass_forms

CALLBOARD = "http://127.0.0.1:9"
VERIFIER = "v" * 50


def test_it_signs_a_person_in_and_takes_a_code_once_with_its_verifier(identity_provider: IdentityProvider) -> None:
    identity_provider.allow(CALLBOARD)
    discovery = httpx.get(f"{identity_provider.issuer}.well-known/openid-configuration").json()
    redirect_uri = f"{CALLBOARD}/auth/callback"
    options = {"scope": "openid groups", "redirect_uri": redirect_uri, "code_challenge_method": "S256"}
    with OAuth2Client(CLIENT_ID, CLIENT_SECRET, **options) as client, httpx.Client() as person:
        address, state = client.create_authorization_url(discovery["authorization_endpoint"], code_verifier=VERIFIER)

        back = pass_forms(person, address, "olga", CALLBOARD)

        returned = parse_qs(urlsplit(back).query)
        assert returned["state"] == [state]
        assert returned["iss"] == [identity_provider.issuer]
        with pytest.raises(OAuthError):
            client.fetch_token(discovery["token_endpoint"], authorization_response=back, code_verifier="w" * 50)
        again = pass_forms(person, address, "olga", CALLBOARD)  # signed in there already
        token = client.fetch_token(discovery["token_endpoint"], authorization_response=again, code_verifier=VERIFIER)
        assert token["id_token"]
        with pytest.raises(OAuthError):
            client.fetch_token(discovery["token_endpoint"], authorization_response=again, code_verifier=VERIFIER)
