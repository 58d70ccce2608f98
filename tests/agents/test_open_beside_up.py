"""`Runner.open()` beside a running `up`: events come through its Redis, not by looking into SQL now and then."""

import pytest

from agents.runner import Runner
from config.database.migrate import migrate
from tests.backends import start_redis

pytestmark = pytest.mark.parity


@pytest.fixture
def beside_up(settings):
    """The URL of the state folder's own Redis, which answers."""
    running = start_redis(settings)
    yield running.url
    running.stop()


def test_the_running_servers_redis_is_used(settings, beside_up):
    migrate(settings)

    runner = Runner.open(settings)

    try:
        assert runner.settings.redis_url == beside_up
        assert runner.journal.settings.redis_url == beside_up
    finally:
        runner.close()


def test_a_redis_that_is_named_is_kept(settings, beside_up, redis_url):
    migrate(settings)

    runner = Runner.open(settings.model_copy(update={"redis_url": redis_url}))

    assert runner.settings.redis_url == redis_url
    runner.close()


def test_without_a_server_there_is_none(settings):
    migrate(settings)

    runner = Runner.open(settings)

    assert runner.settings.redis_url is None
    runner.close()
