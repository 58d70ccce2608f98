"""`./callboard worker`: its processes are kept, drained and refused as it says."""

import contextlib
import subprocess
import sys

import psutil
import pytest

from config.database.engine import open_database
from config.database.migrate import migrate
from tests.fleet import bare_environment
from tests.journeys.up import Up

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


@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_each_pool_comes_up_and_a_killed_process_comes_back(redis_settings, variables, pool):
    with Up(redis_settings.state, "-n", "1", "--pool", pool, "--slots", "2", command="worker", **variables) as worker:
        worker.wait_for("1 worker process is starting")
        worker.wait_for("-1 is ready to take runs")
        worker.wait_for("ready.")
        before = {child.pid for child in worker.children("celery")}

        for pid in before:
            with contextlib.suppress(psutil.NoSuchProcess):  # the first one's group goes with it
                psutil.Process(pid).kill()

        worker.wait_for("starting it again")
        worker.wait_for("ready.", times=2)
        assert not before & {child.pid for child in worker.children("celery")}
        assert worker.stop() == 0
        assert not any(psutil.pid_exists(pid) for pid in before)


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


def run_worker(state, *flags, **environment):
    command = [sys.executable, "-P", "-m", "cli", "worker", "--state-dir", str(state), *flags]
    environment = bare_environment(**environment)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
