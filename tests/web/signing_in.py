"""A reader of the page who signs in at a real provider."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from config.settings import Settings
from tests.identity_provider.provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, pass_forms

ORIGIN = "http://localhost"
"""Where Flask's test client has the page."""


def settings_for(settings: Settings, provider: IdentityProvider, **changes: Any) -> Settings:
    """Return settings with sign-in at this provider."""
    provider.allow(ORIGIN)
    named = {
        "auth": "required",
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_scopes": "openid profile email groups",
        "oidc_roles": "ops=operator,admins=admin",
    }
    return Settings(_env_file=None, **(settings.model_dump() | named | changes))  # type: ignore[call-arg]


class Reader:
    """One browser."""

    def __init__(self, app: Flask) -> None:
        self.client: FlaskClient = app.test_client()
        self.state = self.csrf_token = ""

    def begins(self) -> str:
        """Return the address at the provider."""
        begun = self.client.post("/auth/sign-in").json
        assert begun is not None
        self.state = begun["state"]
        return str(begun["authorization_url"])

    def returns(self, name: str, url: str = "") -> dict[str, str]:
        """Sign in at the provider as this person, and return with what it sends back."""
        with httpx.Client(verify=False) as person:  # plain HTTP; reading certificates takes 20 ms
            back = pass_forms(person, url or self.begins(), name, f"{ORIGIN}/auth/callback")
        return {key: values[0] for key, values in parse_qs(urlsplit(back).query).items()}

    def finishes(self, returned: dict[str, str]) -> TestResponse:
        """Send what the provider sent back, as the page does."""
        finished = self.client.post("/auth/callback", json=returned)
        if finished.status_code == 200:
            self.csrf_token = finished.json["csrf_token"]  # type: ignore[index]
        return finished

    def signs_in(self, name: str) -> Reader:
        finished = self.finishes(self.returns(name))
        assert finished.status_code == 200, finished.json
        return self

    def me(self) -> Any:
        return self.client.get("/v1/me").json

    def post(self, path: str, body: Any = None, **headers: str) -> TestResponse:
        """Send a request that changes something, as the page does."""
        named = {"X-CSRF-Token": self.csrf_token, "Origin": ORIGIN} | headers
        return self.client.post(path, json=body or {}, headers=named)

    def cookie(self, kind: str) -> tuple[str, str]:
        """Return the name and the value of a cookie that was kept."""
        cookies = [each for each in (self.client._cookies or {}).values() if kind in each.key]
        assert len(cookies) == 1
        return cookies[0].key, cookies[0].value
