"""A sign-out: within a second on two web processes, streams included."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from config.database.engine import open_database
from config.database.migrate import migrate
from config.database.shared_secret import shared_secret
from config.identity import sessions
from config.identity.principal import Principal
from config.identity.session_form import SECRET_NAME, SessionForm
from config.identity.sessions import Lifetime
from config.settings import Settings
from tests.journeys.test_revocation import BAR_S, Stream, free_port, seconds_until
from tests.journeys.web_server import Web
from web.auth.session_cookies import SESSION, name_of

pytestmark = pytest.mark.journey

ISSUER = "https://login.example.org"


@pytest.fixture(scope="module")
def webs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, Web]]:
    """Two web processes of one deployment with sign-in."""
    made = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=tmp_path_factory.mktemp("sign-out"),
        auth="required",
        oidc_issuer=ISSUER,
        oidc_client_id="callboard",
    )
    migrate(made)
    first, second = (made.model_copy(update={"port": free_port()}) for _ in range(2))
    with Web(first) as one, Web(second) as two:
        yield one, two


@pytest.mark.parametrize("everywhere", [False, True])
def test_streams_and_requests_end_on_both_processes(webs: tuple[Web, Web], everywhere: bool) -> None:
    here, there = signed_in(webs[0].settings, "olga"), signed_in(webs[0].settings, "olga")
    other = signed_in(webs[0].settings, "adam")
    streams = [Stream(web, "/v1/events", **here) for web in webs]
    theirs = [Stream(web, "/v1/events", **there) for web in webs]
    kept = [Stream(web, "/v1/events", **other) for web in webs]

    assert webs[0].ask("/auth/sign-out", {"everywhere": everywhere}, **here)[0] == 200
    began = time.monotonic()

    refused_s = [seconds_until(401, web, "/v1/runs", here, began) for web in webs]
    assert all(stream.ends_within(BAR_S - (time.monotonic() - began)) for stream in streams)
    assert max(refused_s) < BAR_S
    assert all(stream.ends_within(BAR_S if everywhere else 0) == everywhere for stream in theirs)
    assert not any(stream.ends_within(0) for stream in kept)


def signed_in(settings: Settings, name: str) -> dict[str, str]:
    """Return the headers of a person's browser after a sign-in."""
    database = open_database(settings.database)
    form = SessionForm(partial(shared_secret, database, SECRET_NAME), ISSUER)
    session_id, text = form.make()
    lifetime = Lifetime(idle_ms=3_600_000, most_ms=3_600_000)
    facts = {"sign_in_digest": session_id, "display_name": name, "lifetime": lifetime}
    with database.write() as connection:
        sessions.create(connection, session_id, form.digest(text), Principal(id=name), **facts)  # type: ignore[arg-type]
    database.close()
    cookie = f"{name_of(SESSION, form, 'http://127.0.0.1')}={text}"
    return {"Cookie": cookie, "X-CSRF-Token": form.csrf_token(text)}
