"""Two real web processes share the limit of a principal, and hand streams of a listed page over with its headers."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from config.database.migrate import migrate
from config.settings import Settings
from tests.bench.processes import free_port
from tests.journeys.web_server import Web

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

PAGE = "http://localhost:5173"
LIMIT = 20


@pytest.fixture
def webs(tmp_path: Path, redis_server, deployment: str) -> Iterator[tuple[Web, Web]]:
    (tmp_path / "agents").mkdir()
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=tmp_path / "state",
        agents_dir=str(tmp_path / "agents"),
        redis_url=redis_server.url,
        deployment=deployment,
        cors_origins=PAGE,
        principal_requests_per_minute=LIMIT,
    )
    settings.state.mkdir(mode=0o700)
    migrate(settings)
    with ExitStack() as stack:
        first, second = (stack.enter_context(Web(settings.model_copy(update={"port": free_port()}))) for _ in range(2))
        yield first, second


def test_two_processes_share_a_limit_and_streams_have_the_headers_of_cors(webs: tuple[Web, Web]) -> None:
    request = urllib.request.Request(webs[0].address + "/v1/events", headers={"Origin": PAGE})
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert stream.headers["Access-Control-Allow-Origin"] == PAGE
        assert stream.headers["Connection"] == "close"  # handed over to the loop
        assert stream.readline()

    answers = [webs[number % 2].ask("/v1/agents") for number in range(LIMIT + 3)]

    statuses = [answer[0] for answer in answers]
    assert statuses == [200] * (LIMIT - 1) + [429] * 4  # the stream was the first request
    assert 1 <= int(answers[-1][1]["Retry-After"]) <= 60
    assert webs[1].ask("/ready")[0] == 200
