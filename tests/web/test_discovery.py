"""The discovery document of an identity provider: browsers and this server are sent to the addresses in it."""

from __future__ import annotations

import httpx2
import pytest
from authlib.integrations.httpx_client import OAuth2Client

from config.settings import Settings
from tests.raising import raises
from web.oidc.errors import PROVIDER_UNREACHABLE
from web.oidc.provider import ENDPOINTS, Provider

ISSUER = "https://idp.example"


def discover(settings: Settings, **endpoints: object) -> object:
    document = dict.fromkeys(ENDPOINTS, f"{ISSUER}/x") | {"issuer": ISSUER} | endpoints
    answers = httpx2.MockTransport(lambda _: httpx2.Response(200, json=document))
    provider = Provider(settings.model_copy(update={"oidc_issuer": ISSUER}))
    with OAuth2Client("callboard", transport=answers) as client:
        return provider._discover(client)


@pytest.mark.parametrize("name", [*ENDPOINTS, "userinfo_endpoint", "end_session_endpoint"])
@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)",
        "http://idp.example/x",
        "https://idp.example@evil.example/",
        "https://idp.example\\@evil.example/",
        "https://idp.example/a\r\nb",
        "https://2130706433/",
        "https:///x",
        "/x",
        None,
        5,
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(settings: Settings, name: str, endpoint: object) -> None:
    with raises(PROVIDER_UNREACHABLE, match=f"no usable '{name}'"):
        discover(settings, **{name: endpoint})


def test_other_addresses_are_taken(settings: Settings) -> None:
    assert discover(settings, token_endpoint="https://tokens.idp.example:8443/realms/a%20b?c=d")
