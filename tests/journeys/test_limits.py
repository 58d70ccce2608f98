"""Two real web processes share the limits of a principal, and hand streams of a listed page over with its headers."""

from __future__ import annotations

import http.client
import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from redis import Redis

from bus.keys import Keys
from config.database.migrate import migrate
from config.settings import Settings
from tests.journeys.web_server import Web
from tests.ports import free_port
from tests.web.conftest import eventually
from web.feeds.viewer_counts import LIVES_S

pytestmark = [pytest.mark.journey, pytest.mark.timeout(120)]

PAGE = "http://localhost:5173"
LIMIT = 20
VIEWERS = 4
Starts = Callable[..., tuple[Web, Web]]


@pytest.fixture
def webs(tmp_path: Path, redis_server, deployment: str) -> Iterator[Starts]:
    """Starts two web processes of one deployment."""
    (tmp_path / "agents").mkdir()
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
        state_dir=tmp_path / "state",
        agents_dir=str(tmp_path / "agents"),
        redis_url=redis_server.url,
        deployment=deployment,
        cors_origins=PAGE,
    )
    settings.state.mkdir(mode=0o700)
    migrate(settings)
    with ExitStack() as stack:

        def start(**limits: int) -> tuple[Web, Web]:
            chosen = [settings.model_copy(update={"port": free_port(), **limits}) for _ in range(2)]
            first, second = (stack.enter_context(Web(web_settings)) for web_settings in chosen)
            return first, second

        yield start


def test_two_processes_share_a_limit_and_streams_have_the_headers_of_cors(webs: Starts) -> None:
    both = webs(principal_requests_per_minute=LIMIT)
    request = urllib.request.Request(both[0].address + "/v1/events", headers={"Origin": PAGE})
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert stream.headers["Access-Control-Allow-Origin"] == PAGE
        assert stream.headers["Connection"] == "close"  # handed over to the loop
        assert stream.readline()

    answers = [both[number % 2].ask("/v1/agents") for number in range(LIMIT + 3)]

    statuses = [answer[0] for answer in answers]
    assert statuses == [200] * (LIMIT - 1) + [429] * 4  # the stream was the first request
    assert 1 <= int(answers[-1][1]["Retry-After"]) <= 60
    assert both[1].ask("/health")[0] == 200


def follow(web: Web, viewers: ExitStack) -> int:
    """Return the status of a new stream, which stays open."""
    connection = http.client.HTTPConnection("127.0.0.1", web.settings.port, timeout=20)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()
    if answer.status == 200:
        viewers.callback(connection.close)
        viewers.callback(answer.close)
        assert answer.readline()
    else:
        assert int(answer.headers["Retry-After"]) > 0
        assert b"too_many_viewers" in answer.read()
        connection.close()
    return answer.status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_two_processes_share_a_limit_of_viewers_until_one_ends(webs: Starts, number: signal.Signals) -> None:
    first, second = webs(principal_viewers=VIEWERS)
    with ExitStack() as viewers, ExitStack() as others:
        opened = [follow(first, viewers) for _ in range(VIEWERS - 1)] + [follow(second, others)]
        assert opened == [200] * VIEWERS
        eventually(lambda: reported(first.settings) == VIEWERS)
        assert [follow(web, viewers) for web in (first, second)] == [429, 429]
        others.close()
        eventually(lambda: follow(first, viewers) == 200)  # as soon as the other one has reported
        eventually(lambda: reported(first.settings) == VIEWERS)
        assert follow(second, viewers) == 429

        began = time.monotonic()
        kill(first, number)

        eventually(lambda: follow(second, viewers) == 200)
        assert time.monotonic() - began < LIVES_S + 10
        assert [follow(second, viewers) for _ in range(VIEWERS)] == [200] * (VIEWERS - 1) + [429]


def reported(settings: Settings) -> int:
    """Return how many viewers the web processes have reported together."""
    with Redis.from_url(settings.redis_url or "") as redis:
        reports = redis.hvals(Keys(settings.deployment).viewers(settings.tenant))
    return sum(json.loads(report.partition(b" ")[2])[settings.principal] for report in reports)


def kill(web: Web, number: signal.Signals) -> None:
    master = psutil.Process(web.process.pid)
    processes = [*master.children(recursive=True), master] if number is signal.SIGKILL else [master]
    for process in processes:
        process.send_signal(number)
    web.process.wait(15)
