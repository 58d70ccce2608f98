"""`./callboard worker` refuses what cannot work; test_wedged.py has how its processes are kept."""

import subprocess
import sys

import pytest

from config.database.engine import open_database
from config.database.migrate import migrate
from tests.fleet import bare_environment

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.fixture
def variables(redis_settings):
    """A migrated database and a Redis; returns the environment of processes that use them."""
    migrate(redis_settings)
    return {
        "CALLBOARD_REDIS_URL": redis_settings.redis_url,
        "CALLBOARD_DATABASE_URL": redis_settings.database,
        "CALLBOARD_DEPLOYMENT": redis_settings.deployment,
    }


def test_an_old_schema_is_named_with_the_command_that_mends_it(redis_settings, variables, tmp_path):
    empty = f"sqlite:///{tmp_path / 'empty.db'}"

    ended = run_worker(redis_settings.state, **{**variables, "CALLBOARD_DATABASE_URL": empty})

    assert ended.returncode == 1
    assert "./callboard migrate" in ended.stderr
    assert "[schema_old]" in ended.stderr


def test_without_any_redis_the_sentence_says_what_to_start(settings, database_url):
    migrate(settings)
    open_database(database_url).close()

    ended = run_worker(settings.state, CALLBOARD_DATABASE_URL=database_url)

    assert ended.returncode == 1
    assert "start ./callboard up" in ended.stderr


@pytest.mark.parametrize("pool", ["gevent", "eventlet", "asyncio"])
def test_a_pool_that_cannot_work_is_refused(settings, pool):
    ended = run_worker(settings.state, "--pool", pool)

    assert ended.returncode == 2
    assert "[pool_refused]" in ended.stderr
    assert "--pool threads" in ended.stderr
    assert "Traceback" not in ended.stderr


def run_worker(state, *flags, **environment):
    command = [sys.executable, "-P", "-m", "cli", "worker", "--state-dir", str(state), *flags]
    environment = bare_environment(**environment)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
