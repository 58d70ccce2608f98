"""The OpenID Connect provider of the tests: Canaille with two people, in a process and an environment of its own.

Its first line of output is its port. Each line of its input is the origin of a Callboard, which may sign people in
once the line comes back. It ends when its input closes. Only this file imports Canaille, which is in that environment.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import threading

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from canaille.oidc import provider
from joserfc.jwk import ECKey, RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server

CLIENT_ID, CLIENT_SECRET = "callboard", "the-secret-of-callboard"
OTHER_CLIENT_ID = "another-application"
PASSWORD = "correct horse battery staple"
PEOPLE = {"olga": ("ops", "everyone"), "adam": ("admins", "everyone"), "nora": ("everyone",)}
"""Who can sign in -> the groups that each is in."""


class Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        pass


def main() -> None:
    """Serve until standard input closes."""
    with tempfile.TemporaryDirectory(prefix="callboard-provider-") as folder:
        serve(f"sqlite:///{folder}/provider.db")


def serve(database: str) -> None:
    # Its own tokens are JWTs: two of a person within a second are equal, which its database refuses.
    provider.generate_access_token = lambda client, grant_type, user, scope: secrets.token_urlsafe(32)
    keys = [RSAKey.generate_key(2048), ECKey.generate_key("P-256")]
    app = create_app(
        {
            "SECRET_KEY": "of this test process",
            "SESSION_COOKIE_NAME": "provider",
            "CANAILLE_SQL": {"DATABASE_URI": database, "PASSWORD_HASH_PARAMS": {"pbkdf2_sha512__rounds": 1}},
            "CANAILLE": {"DATABASE": "sql", "ADMIN_EMAIL": None, "SMTP": None, "LOGGING": _LOGGING},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True) for key in keys], "REQUIRE_NONCE": False},
        },
        init_backend=True,
    )
    with app.app_context(), Backend.instance.session():
        _add_people()
        _add_clients()
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        with app.app_context(), Backend.instance.session():
            _allow(line.strip())
        print(line, end="", flush=True)


_LOGGING = {"version": 1, "disable_existing_loggers": True, "root": {"level": "ERROR"}}


def _add_people() -> None:
    users = {}
    for name in PEOPLE:
        users[name] = models.User(
            user_name=name,
            formatted_name=name.title(),
            display_name=name,
            family_name=name.title(),
            emails=[f"{name}@example.org"],
            password=PASSWORD,
        )
        Backend.instance.save(users[name])
    for group in sorted({group for groups in PEOPLE.values() for group in groups}):
        members = [users[name] for name, groups in PEOPLE.items() if group in groups]
        Backend.instance.save(models.Group(display_name=group, members=members))


def _add_clients() -> None:
    for client_id in (CLIENT_ID, OTHER_CLIENT_ID):
        client = models.Client(
            client_id=client_id,
            client_name=client_id.title(),
            client_secret=CLIENT_SECRET,
            client_uri="http://127.0.0.1",  # of a trusted domain: no page that asks for consent
            grant_types=["authorization_code"],
            response_types=["code"],
            scope=["openid", "profile", "email", "groups"],
            token_endpoint_auth_method="client_secret_basic",
            id_token_signed_response_alg="RS256",
        )
        Backend.instance.save(client)
        client.audience = [client]
        Backend.instance.save(client)


def _allow(origin: str) -> None:
    """Let the clients be called back at a Callboard."""
    for client_id in (CLIENT_ID, OTHER_CLIENT_ID):
        client = Backend.instance.get(models.Client, client_id=client_id)
        client.redirect_uris = [*(client.redirect_uris or []), f"{origin}/auth/callback"]
        client.post_logout_redirect_uris = [*(client.post_logout_redirect_uris or []), f"{origin}/"]
        Backend.instance.save(client)


if __name__ == "__main__":
    main()
