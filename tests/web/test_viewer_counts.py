"""Viewers are counted over all web processes by reports in Redis that expire; without Redis, by each process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from bus.keys import Keys
from bus.loop import ProcessLoop, process_loop
from config.errors import Retryable
from config.identity.principal import Principal
from config.settings import Settings
from tests.web.conftest import eventually
from web.errors import TOO_MANY_VIEWERS
from web.feeds import viewer_counts as module
from web.feeds.viewer_counts import Reports, ViewerCounts

ANN, BEN = Principal(tenant="acme", id="ann"), Principal(tenant="acme", id="ben")
ELSEWHERE = Principal(tenant="other", id="ann")
LIMITS = {"principal_viewers": 2, "tenant_viewers": 3}
Opens = Callable[..., ViewerCounts]
UNIX_NOWHERE = "unix:///nowhere/redis.sock?db=0"


@pytest.fixture
def loop() -> ProcessLoop:
    return process_loop()


@pytest.fixture
def opens(settings: Settings, loop: ProcessLoop) -> Iterator[Opens]:
    """Makes the counts of another web process of this deployment, on the Redis of a URL."""
    counters: list[ViewerCounts] = []

    def counts(url: str | None) -> ViewerCounts:
        reports = Reports(Keys(settings.deployment), url)
        counters.append(ViewerCounts(loop, lambda name, _: LIMITS[name], reports))
        return counters[-1]

    yield counts
    for counter in counters:
        loop.run(counter.close())


def come(loop: ProcessLoop, counts: ViewerCounts, owner: Principal) -> None:
    counts.require_room(owner)
    loop.run(_call(counts.add, owner))


async def _call(function: Callable[[Principal], None], owner: Principal) -> None:
    function(owner)


def is_full(counts: ViewerCounts, owner: Principal) -> bool:
    try:
        counts.require_room(owner)
    except Retryable as error:
        return error.code == TOO_MANY_VIEWERS.code
    return False


@pytest.mark.parity
def test_a_principal_and_its_tenant_have_one_limit_for_all_processes(
    opens: Opens, loop: ProcessLoop, redis_url: str
) -> None:
    first, second = opens(redis_url), opens(redis_url)

    come(loop, first, ANN)
    come(loop, second, ANN)

    eventually(lambda: is_full(first, ANN) and is_full(second, ANN))
    come(loop, second, BEN)
    eventually(lambda: is_full(first, BEN) and is_full(second, BEN))  # the tenant's limit
    assert not is_full(first, ELSEWHERE)
    loop.run(_call(first.remove, ANN))
    eventually(lambda: not is_full(second, ANN))


@pytest.mark.parity
def test_the_viewers_of_a_process_that_ends_count_no_more(opens: Opens, loop: ProcessLoop, redis_url: str) -> None:
    first, second = opens(redis_url), opens(redis_url)
    come(loop, first, ANN)
    come(loop, first, ANN)
    eventually(lambda: is_full(second, ANN))

    loop.run(first.close())

    eventually(lambda: not is_full(second, ANN))


@pytest.mark.parity
def test_the_report_of_a_killed_process_expires(opens: Opens, loop: ProcessLoop, redis_url: str) -> None:
    first, second = opens(redis_url), opens(redis_url)
    come(loop, first, ANN)
    come(loop, first, ANN)
    eventually(lambda: is_full(second, ANN))

    assert first._reporting is not None
    loop.loop.call_soon_threadsafe(first._reporting.cancel)

    eventually(lambda: not is_full(second, ANN))
    assert first.of(ANN) == 2


@pytest.mark.parity
@pytest.mark.parametrize(
    "written", [b"", b"x", b"9999999999999 {}", b"1 [1]", b"{'ann': 5}", b'99999999999999 {"ann": 5}']
)
def test_what_others_write_into_the_hash_is_ignored_and_removed(
    opens: Opens, settings: Settings, redis_url: str, written: bytes
) -> None:
    key = Keys(settings.deployment).viewers("acme")
    with Redis.from_url(redis_url) as redis:
        redis.hset(key, "web_forged", written)

        assert not is_full(opens(redis_url), ANN)

        assert redis.hgetall(key) == {}


@pytest.mark.parametrize("report", [b"[]", b"x", b"", b'{"ann": "2"}', b'{"ann": -1}', b'{"ann": true}', b"\xff"])
def test_counts_that_are_none_are_ignored(report: bytes) -> None:
    assert module._summed([b'{"ann": 1}', report]) == {"ann": 1}


@pytest.mark.parametrize("url", [None, UNIX_NOWHERE])
def test_without_redis_each_process_counts_its_own(
    opens: Opens, loop: ProcessLoop, url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = opens(url), opens(url)
    for counter in (first, second):
        come(loop, counter, ANN)
        come(loop, counter, ANN)

    assert [is_full(counts, ANN) for counts in (first, second)] == [True, True]
    assert caplog.text.count("each process counts its own") == (2 if url else 0)


@pytest.mark.parity
def test_a_redis_that_accepts_and_never_answers_is_given_up(opens: Opens, loop: ProcessLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        counts = opens(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")

        come(loop, counts, ANN)

        silent.settimeout(10)
        taken, _ = silent.accept()
        with taken:
            taken.settimeout(10)
            while taken.recv(4096):  # until the process has closed its end
                pass
        assert counts.of(ANN) == 1


def test_a_report_of_no_tenant_asks_redis_for_nothing(
    settings: Settings, loop: ProcessLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a command there is no answer, which a process without viewers would wait for before it ends."""
    reports = Reports(Keys(settings.deployment), UNIX_NOWHERE)

    loop.run(reports.exchange({}))

    assert caplog.text == ""


def test_a_process_that_ends_does_not_warn_of_a_redis_that_has_ended(
    settings: Settings, loop: ProcessLoop, caplog: pytest.LogCaptureFixture
) -> None:
    reports = Reports(Keys(settings.deployment), UNIX_NOWHERE)

    loop.run(reports.close({"acme"}))

    assert caplog.text == ""
