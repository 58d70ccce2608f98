"""A sign-out: within a second on two web processes, streams included."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from config.database.migrate import migrate
from config.identity.principal import Principal
from config.settings import Settings
from tests.credentials import session_of
from tests.journeys.test_revocation import BAR_S, Stream, seconds_until
from tests.journeys.web_server import Web
from tests.ports import free_port

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def webs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, Web]]:
    """Two web processes of one deployment with sign-in."""
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=tmp_path_factory.mktemp("sign-out"),
        auth="required",
        oidc_issuer="https://login.example.org",
        oidc_client_id="callboard",
    )
    migrate(settings)
    first, second = (settings.model_copy(update={"port": free_port()}) for _ in range(2))
    with Web(first) as web, Web(second) as two:
        yield web, two


@pytest.mark.parametrize("everywhere", [False, True])
def test_streams_and_requests_end_on_both_processes(webs: tuple[Web, Web], everywhere: bool) -> None:
    here, there, other = (session_of(webs[0].settings, Principal(id=name)) for name in ("olga", "olga", "adam"))
    streams = [Stream(web, "/v1/events", **here) for web in webs]
    theirs = [Stream(web, "/v1/events", **there) for web in webs]
    open_streams = [Stream(web, "/v1/events", **other) for web in webs]

    assert webs[0].ask("/auth/sign-out", {"everywhere": everywhere}, **here)[0] == 200
    began = time.monotonic()

    refused_s = [seconds_until(401, web, "/v1/runs", here, began) for web in webs]
    assert all(stream.ends_within(BAR_S - (time.monotonic() - began)) for stream in streams)
    assert max(refused_s) < BAR_S
    assert all(stream.ends_within(BAR_S if everywhere else 0) == everywhere for stream in theirs)
    assert not any(stream.ends_within(0) for stream in open_streams)
